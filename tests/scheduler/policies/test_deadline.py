"""Earliest deadline first among the feasible; the others later, but in bounded time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from octavo.scheduler.policies.deadline import Deadline
from octavo.scheduler.policies.exercises import SECONDS_PER_TOKEN, Facts, make_ticket
from octavo.scheduler.policy import Ticket
from tests.scheduler.policies.drive import admit, service_order

HORIZON = 60.0


def policy() -> Deadline:
    return Deadline(Facts(), horizon_seconds=HORIZON)


def test_the_earlier_deadline_goes_first() -> None:
    tickets = [make_ticket(deadline=deadline) for deadline in (30, 10, 20)]
    assert service_order(policy(), tickets) == [tickets[1], tickets[2], tickets[0]]


def test_who_cannot_make_it_steps_behind_who_can() -> None:
    hopeless = make_ticket(num_prompt_tokens=10_001, deadline=10)
    others = [make_ticket(deadline=50), make_ticket()]
    assert service_order(policy(), [hopeless, *others]) == [*others, hopeless]


def test_what_is_cached_need_not_be_computed_in_time() -> None:
    cached = make_ticket(tenant="a", num_prompt_tokens=12_000, deadline=10)
    assert service_order(policy(), [make_ticket(deadline=50), cached])[0] is cached


def test_who_could_have_made_it_steps_back_when_it_is_too_late() -> None:
    short_of_time = make_ticket(num_prompt_tokens=900, max_new_tokens=100, deadline=10)
    other = make_ticket(deadline=50)
    queue = policy()
    queue.add(short_of_time, 0)
    queue.add(other, 0)
    assert queue.head(8.9) is short_of_time
    assert queue.head(9.1) is other


def test_without_deadline_one_is_due_after_the_horizon_and_stays_in_line() -> None:
    aged = make_ticket(arrival_time=0)
    early = make_ticket(arrival_time=50, deadline=59)
    late = make_ticket(arrival_time=50, deadline=61)
    queue = policy()
    for ticket in (late, aged, early):
        queue.add(ticket, 50)
    assert [admit(queue, 50) for _ in range(3)] == [early, aged, late]


def test_a_far_deadline_is_no_reason_to_wait_longer_than_without_one() -> None:
    far = make_ticket(arrival_time=0, deadline=1e5)
    none = make_ticket(arrival_time=1)
    assert service_order(policy(), [none, far]) == [far, none]


@given(
    facts=st.lists(
        st.tuples(st.sampled_from([100, 5000, 40_000]), st.one_of(st.none(), st.integers(0, 100))),
        min_size=1,
        max_size=20,
    )
)
def test_first_the_feasible_by_due_time_and_then_the_others(
    facts: list[tuple[int, int | None]],
) -> None:
    def place(ticket: Ticket) -> tuple[bool, float]:
        # The answer's tokens, less than a second of them, come on top of the prompt's.
        is_late = ticket.num_prompt_tokens * SECONDS_PER_TOKEN >= ticket.deadline
        return is_late, min(ticket.deadline, HORIZON)

    tickets = [
        make_ticket(num_prompt_tokens=length)
        if deadline is None
        else make_ticket(num_prompt_tokens=length, deadline=deadline)
        for length, deadline in facts
    ]
    # Who is late is due exactly at the horizon; then who came first stands before it.
    order = service_order(policy(), tickets)
    assert [place(ticket) for ticket in order] == sorted(place(ticket) for ticket in tickets)
