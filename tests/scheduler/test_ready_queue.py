"""Both orders, that of all and that of the high class, learn what was computed for whom."""

from __future__ import annotations

import pytest

from octavo.kv.kv_manager import KvManager
from octavo.scheduler.policies.fcfs import Fcfs
from octavo.scheduler.policy import PolicyFacts, Ticket
from octavo.scheduler.ready_queue import ReadyFacts, ReadyQueue
from octavo.scheduler.step_time import StepTimeModel


class Recording(Fcfs):
    def __init__(self, facts: PolicyFacts) -> None:
        super().__init__(facts)
        self.charged: list[tuple[Ticket, int]] = []

    def charge(self, ticket: Ticket, num_tokens: int) -> None:
        self.charged.append((ticket, num_tokens))


@pytest.mark.parametrize("reserves", [False, True])
def test_every_policy_is_charged_for_what_was_computed(reserves: bool) -> None:
    made: list[Recording] = []

    def make(facts: PolicyFacts) -> Recording:
        made.append(Recording(facts))
        return made[-1]

    queue = ReadyQueue(make, ReadyFacts(KvManager(4), StepTimeModel(), 512), reserves=reserves)
    ticket = Ticket(
        request_id="r",
        index=0,
        tenant="",
        priority=0,
        arrival_time=0.0,
        num_prompt_tokens=5,
        max_new_tokens=1,
    )
    queue.charge(ticket, 5)
    queue.charge(ticket, 1)
    assert len(made) == 1 + reserves
    for policy in made:
        assert policy.charged == [(ticket, 5), (ticket, 1)]
