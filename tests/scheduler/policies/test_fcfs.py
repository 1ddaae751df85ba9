"""First come, first served."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from octavo.scheduler.policies.exercises import Facts, make_ticket
from octavo.scheduler.policies.fcfs import Fcfs
from tests.scheduler.policies.drive import service_order


@given(leaves=st.lists(st.booleans(), max_size=20))
def test_the_order_is_that_of_arrival_whoever_gives_up(leaves: list[bool]) -> None:
    policy = Fcfs(Facts())
    tickets = [make_ticket(priority=-number) for number in range(len(leaves))]
    for ticket in tickets:
        policy.add(ticket, 0)
    for ticket, gives_up in zip(tickets, leaves, strict=True):
        if gives_up:
            policy.remove(ticket)
    stays = [ticket for ticket, gone in zip(tickets, leaves, strict=True) if not gone]
    assert service_order(policy, []) == stays
