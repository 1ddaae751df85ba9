"""From a name to a policy, and what is said when there is none."""

from __future__ import annotations

from importlib.metadata import EntryPoint, EntryPoints

import pytest

from octavo.config import plugins
from octavo.config.engine import EngineConfig
from octavo.errors import ConfigError
from octavo.scheduler.policies import registry
from octavo.scheduler.policies.deadline import Deadline
from octavo.scheduler.policies.exercises import Facts, make_ticket
from octavo.scheduler.policies.fcfs import Fcfs
from octavo.scheduler.policies.guarded import GuardedPolicy
from octavo.scheduler.policies.priority import Priority
from octavo.scheduler.policies.registry import find_factory, policy_factory
from octavo.scheduler.policy import PolicyFacts, SchedulingPolicy

BROKEN = "tests.scheduler.policies.broken"


def made(name: str, **options: float) -> SchedulingPolicy:
    return policy_factory(EngineConfig(scheduling_policy=name, **options))(Facts())  # type: ignore[arg-type]


def failing_factory(_facts: PolicyFacts) -> Fcfs:
    raise RuntimeError("no licence")


not_a_factory = 3


def test_the_default_is_first_come_first_served() -> None:
    assert isinstance(policy_factory(EngineConfig())(Facts()), Fcfs)


def test_options_reach_the_policies_that_take_them() -> None:
    priority = made("priority", priority_ageing_seconds=10)
    assert isinstance(priority, Priority)
    early, urgent = make_ticket(arrival_time=0, priority=1), make_ticket(arrival_time=11)
    deadline = made("deadline", deadline_horizon_seconds=10)
    assert isinstance(deadline, Deadline)
    due = make_ticket(arrival_time=0, deadline=9)
    for policy, tickets in ((priority, [urgent, early]), (deadline, [early, due])):
        for ticket in tickets:
            policy.add(ticket, 11)
    assert priority.head(11) is early
    assert deadline.head(0) is due


def test_a_class_can_be_named_and_is_guarded() -> None:
    policy = made(f"{BROKEN}:FussyPolicy")
    assert isinstance(policy, GuardedPolicy)
    policy.remove(make_ticket())
    assert policy.has_failed


def test_for_tests_a_policy_is_found_unguarded() -> None:
    config = EngineConfig(scheduling_policy=f"{BROKEN}:FussyPolicy")
    assert not isinstance(find_factory(config)(Facts()), GuardedPolicy)


@pytest.fixture
def _entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    group = registry.ENTRY_POINT_GROUP
    points = [
        EntryPoint("scanning", f"{BROKEN}:ScanningPolicy", group),
        EntryPoint("gone", "no_such_module:Policy", group),
        EntryPoint("fcfs", f"{BROKEN}:FussyPolicy", group),
    ]
    monkeypatch.setattr(
        plugins, "entry_points", lambda group: EntryPoints(points).select(group=group)
    )


@pytest.mark.usefixtures("_entry_points")
def test_an_entry_point_is_found_by_its_name() -> None:
    assert isinstance(made("scanning"), GuardedPolicy)


@pytest.mark.usefixtures("_entry_points")
def test_an_entry_point_cannot_take_the_name_of_an_own_policy() -> None:
    assert type(made("fcfs")) is Fcfs


@pytest.mark.usefixtures("_entry_points")
def test_an_unknown_name_is_answered_with_what_there_is() -> None:
    with pytest.raises(ConfigError) as caught:
        made("lottery")
    message = str(caught.value)
    assert "--scheduling-policy is 'lottery'; fcfs, priority, sjf, fair" in message
    assert "gone, scanning" in message
    assert "module:Class is allowed" in message


@pytest.mark.usefixtures("_entry_points")
@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("gone", "gone (no_such_module:Policy) cannot be loaded: ModuleNotFoundError"),
        ("no_such_module:Policy", "cannot be loaded: ModuleNotFoundError"),
        (f"{BROKEN}:Nothing", "cannot be loaded: AttributeError"),
        (":", "cannot be loaded: ValueError"),
        (f"{__name__}:not_a_factory", "is 3; a class or function is allowed"),
        (f"{__name__}:failing_factory", "cannot be made: RuntimeError: no licence"),
        (f"{BROKEN}:OldPolicy", "has contract_version 0; 1 is allowed"),
        ("builtins:dict", "cannot be made: TypeError"),
        ("builtins:id", "has contract_version None; 1 is allowed"),
    ],
)
def test_a_policy_that_cannot_be_had_is_an_error_of_configuration(
    name: str, complaint: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        made(name)
    assert complaint in str(caught.value)
    assert name in str(caught.value)


@pytest.mark.parametrize("option", ["priority_ageing_seconds", "deadline_horizon_seconds"])
@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
def test_times_out_of_range_are_refused(option: str, value: float) -> None:
    with pytest.raises(ConfigError, match=option.replace("_", "-")):
        made("fcfs", **{option: value})
