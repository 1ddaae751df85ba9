"""Own policies keep the contract; policies that break it, each in its way, are found out."""

from __future__ import annotations

import sys

import pytest

from octavo.config.engine import EngineConfig
from octavo.config.plugin_report import NonConforming, verdict
from octavo.scheduler.policies.conformance import (
    CHECKS,
    Check,
    check_cost_of_head_does_not_grow,
    check_equal_tickets_are_two,
    check_head_is_stable,
    check_nobody_starves,
    check_nothing_is_lost_or_invented,
    check_remove_is_idempotent,
    check_version,
    main,
)
from octavo.scheduler.policies.fair import Fair, _Tenant
from octavo.scheduler.policies.fcfs import Fcfs
from octavo.scheduler.policies.registry import POLICIES
from octavo.scheduler.policy import PolicyFacts
from tests.scheduler.policies import broken


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("name", POLICIES)
def test_an_own_policy_conforms(name: str, check: Check) -> None:
    check(POLICIES[name](EngineConfig(scheduling_policy=name)))


@pytest.mark.parametrize(
    ("policy", "check", "complaint"),
    [
        (broken.OldPolicy, check_version, "contract_version is 0"),
        (broken.LosingPolicy, check_nothing_is_lost_or_invented, "len is"),
        (broken.InventingPolicy, check_nothing_is_lost_or_invented, "does not wait"),
        (broken.RestlessPolicy, check_head_is_stable, "changes by being asked"),
        (broken.FussyPolicy, check_remove_is_idempotent, "KeyError"),
        (broken.MergingPolicy, check_equal_tickets_are_two, "a twin is lost"),
        (broken.NewestFirstPolicy, check_nobody_starves, "starves"),
        (broken.StrictPriorityPolicy, check_nobody_starves, "a low priority starves"),
        (broken.ShortestFirstPolicy, check_nobody_starves, "a long job starves"),
        (broken.BestCachedPolicy, check_nobody_starves, "a prompt that is not cached starves"),
        (broken.ScanningPolicy, check_cost_of_head_does_not_grow, "with 100,000"),
    ],
)
def test_a_broken_policy_is_found_out(policy: type[Fcfs], check: Check, complaint: str) -> None:
    assert complaint in verdict(check, policy)


def test_fair_shares_without_turns_would_starve_under_ever_new_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What counting admissions is for."""
    rank = property(lambda tenant: (tenant.virtual_time, next(iter(tenant.tickets.values()))))
    monkeypatch.setattr(_Tenant, "rank", rank)
    with pytest.raises(NonConforming, match="a tenant among ever new ones starves"):
        check_nobody_starves(Fair)


def test_a_tracer_that_was_set_is_set_again() -> None:
    def tracer(*_: object) -> None:
        return None

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        check_cost_of_head_does_not_grow(Fcfs)
        after = sys.gettrace()
    finally:
        sys.settrace(before)
    assert after is tracer


def test_the_command_prints_a_line_per_check(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fcfs"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == [f"ok      {check.__name__[6:].replace('_', ' ')}" for check in CHECKS]


def test_the_command_fails_for_a_policy_that_breaks_its_contract(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["tests.scheduler.policies.broken:FussyPolicy"]) == 1
    assert "FAILED  remove is idempotent: KeyError" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [[], ["fcfs", "fair"], ["nosuch"]])
def test_the_command_explains_itself(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert "conformance NAME" in (error := capsys.readouterr().err) or "nosuch" in error


def test_a_policy_that_raises_is_a_verdict_not_a_crash() -> None:
    def make(_facts: PolicyFacts) -> Fcfs:
        raise RuntimeError("no room")

    assert verdict(check_nobody_starves, make) == "RuntimeError: no room"
