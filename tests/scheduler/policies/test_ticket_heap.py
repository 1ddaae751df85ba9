"""The heap agrees with a sorted list, and holds no more than it must."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from octavo.scheduler.policies.exercises import make_ticket
from octavo.scheduler.policies.ticket_heap import TicketHeap
from octavo.scheduler.policy import Ticket

CALLS = st.lists(
    st.tuples(st.sampled_from(["put", "discard"]), st.integers(0, 9), st.integers(0, 3)),
    max_size=60,
)


@given(calls=CALLS)
def test_the_first_has_the_smallest_key_and_then_the_oldest_place(
    calls: list[tuple[str, int, int]],
) -> None:
    heap = TicketHeap()
    tickets = [make_ticket() for _ in range(10)]
    places: dict[Ticket, tuple[int, int]] = {}
    for number, (action, index, key) in enumerate(calls):
        ticket = tickets[index]
        if action == "put":
            heap.put(ticket, key)
            places[ticket] = (key, number)
        else:
            assert heap.discard(ticket) == (ticket in places)
            places.pop(ticket, None)
        assert len(heap) == len(places)
        assert heap.first() is min(places, key=places.__getitem__, default=None)


def test_who_gives_up_does_not_stay_in_memory() -> None:
    heap = TicketHeap()
    heap.put(make_ticket(), -1)
    for key in range(10_000):
        ticket = make_ticket()
        heap.put(ticket, key)
        heap.discard(ticket)
    assert len(heap._entries) < 100
