"""Whatever a policy raises or answers, nobody is lost, and it is said once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.scheduler.policies.conformance import CHECKS, Check
from octavo.scheduler.policies.exercises import Facts, make_ticket
from octavo.scheduler.policies.fcfs import Fcfs
from octavo.scheduler.policies.guarded import GuardedPolicy
from octavo.scheduler.policies.priority import Priority
from octavo.scheduler.policy import SchedulingPolicy, Ticket
from tests.scheduler.policies import broken


class FailingPolicy(Priority):
    """Fails at call number `fails_at`."""

    def __init__(self, fails_at: int) -> None:
        super().__init__(Facts(), ageing_seconds=60)
        self.calls_left = fails_at

    def _count(self) -> None:
        if self.calls_left == 0:
            raise RuntimeError("out of luck")
        self.calls_left -= 1

    def add(self, ticket: Ticket, now: float) -> None:
        self._count()
        super().add(ticket, now)

    def remove(self, ticket: Ticket) -> None:
        self._count()
        super().remove(ticket)

    def head(self, now: float) -> Ticket | None:
        self._count()
        return super().head(now)

    def charge(self, ticket: Ticket, num_tokens: int) -> None:
        self._count()
        super().charge(ticket, num_tokens)


@pytest.mark.parametrize("check", CHECKS)
def test_a_guarded_policy_conforms(check: Check) -> None:
    check(lambda facts: GuardedPolicy(Fcfs(facts)))


def test_a_sound_policy_is_obeyed() -> None:
    policy = GuardedPolicy(Priority(Facts(), ageing_seconds=60))
    low, high = make_ticket(priority=1), make_ticket(priority=0)
    policy.add(low, 0)
    policy.add(high, 0)
    assert policy.head(0) is high
    assert not policy.has_failed


@given(fails_at=st.integers(0, 40), order=st.permutations(range(8)))
def test_nobody_is_lost_whichever_call_fails(fails_at: int, order: list[int]) -> None:
    policy = GuardedPolicy(FailingPolicy(fails_at))
    tickets = [make_ticket(priority=priority) for priority in order]
    for ticket in tickets:
        policy.add(ticket, 0)
    served: list[Ticket] = []
    heads_after_failure = []
    while (head := policy.head(0)) is not None:
        if policy.has_failed:
            heads_after_failure.append(head)
        policy.remove(head)
        policy.charge(head, 1)
        served.append(head)
    assert set(served) == set(tickets)
    assert len(served) == len(tickets)
    assert len(policy) == 0
    assert heads_after_failure == sorted(heads_after_failure, key=tickets.index)


@pytest.mark.parametrize(
    "policy", [broken.InventingPolicy(Facts()), broken.LosingPolicy(Facts())], ids=["other", "none"]
)
def test_an_impossible_head_is_a_failure_which_is_said_once(
    policy: SchedulingPolicy, caplog: pytest.LogCaptureFixture
) -> None:
    guarded = GuardedPolicy(policy)
    tickets = [make_ticket() for _ in range(25)]
    for ticket in tickets:
        guarded.add(ticket, 0)
    for ticket in tickets:
        assert guarded.head(0) is ticket
        guarded.remove(ticket)
    assert guarded.head(0) is None
    assert guarded.has_failed
    assert len(caplog.records) == 1
    assert type(policy).__name__ in caplog.text
    assert "in the order of their arrival" in caplog.text
