"""Smaller first, unless the other has waited long enough."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from octavo.scheduler.policies.exercises import Facts, make_ticket
from octavo.scheduler.policies.priority import Priority
from octavo.scheduler.policy import Ticket
from tests.scheduler.policies.drive import service_order


def policy(ageing_seconds: float = 60) -> Priority:
    return Priority(Facts(), ageing_seconds=ageing_seconds)


def test_the_smaller_priority_goes_first_and_equals_in_order() -> None:
    tickets = [make_ticket(priority=priority) for priority in (1, 0, -1, 0)]
    assert service_order(policy(), tickets) == [tickets[2], tickets[1], tickets[3], tickets[0]]


def test_waiting_is_worth_one_step_of_priority_per_ageing_time() -> None:
    old = make_ticket(priority=2, arrival_time=0)
    early = make_ticket(priority=0, arrival_time=19)
    late = make_ticket(priority=0, arrival_time=21)
    assert service_order(policy(ageing_seconds=10), [late, old, early]) == [early, old, late]


@given(
    facts=st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 300)), min_size=1, max_size=20),
    now=st.integers(300, 10_000),
)
def test_the_order_is_that_of_aged_priority_whenever_it_is_looked_at(
    facts: list[tuple[int, int]], now: int
) -> None:
    def aged(ticket: Ticket) -> float:
        return ticket.priority * 10 - (now - ticket.arrival_time)

    tickets = [make_ticket(priority=priority, arrival_time=at) for priority, at in facts]
    assert service_order(policy(ageing_seconds=10), tickets, now) == sorted(tickets, key=aged)
