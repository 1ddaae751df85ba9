"""Short jobs first: by prompt, cache, limit and lately served answers; long ones in the end."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from octavo.scheduler.policies.answer_length import AnswerLength
from octavo.scheduler.policies.exercises import SECONDS_PER_TOKEN, Facts, make_ticket
from octavo.scheduler.policies.sjf import Sjf
from octavo.scheduler.policy import Ticket
from tests.scheduler.policies.drive import admit, service_order


def test_the_job_is_what_is_not_cached_and_the_likely_answer() -> None:
    policy = Sjf(Facts())
    guess = AnswerLength.FIRST_GUESS
    assert policy.expected_tokens(make_ticket(num_prompt_tokens=400, max_new_tokens=5)) == 405
    assert policy.expected_tokens(make_ticket(num_prompt_tokens=400, max_new_tokens=9000)) == (
        400 + guess
    )
    cached = make_ticket(tenant="a", num_prompt_tokens=400, max_new_tokens=5)
    assert policy.expected_tokens(cached) == 305


def test_shorter_jobs_go_first() -> None:
    tickets = [make_ticket(num_prompt_tokens=number) for number in (300, 100, 200)]
    assert service_order(Sjf(Facts()), tickets) == [tickets[1], tickets[2], tickets[0]]


def test_a_long_job_lets_others_before_it_for_patience_times_its_length() -> None:
    long = make_ticket(num_prompt_tokens=1001, max_new_tokens=1)
    more_seconds = 10 * 1000 * SECONDS_PER_TOKEN
    before = make_ticket(num_prompt_tokens=1, max_new_tokens=1, arrival_time=more_seconds - 0.1)
    after = make_ticket(num_prompt_tokens=1, max_new_tokens=1, arrival_time=more_seconds + 0.1)
    order = service_order(Sjf(Facts(), patience=10), [long, after, before])
    assert order == [before, long, after]


def test_the_expected_answer_follows_those_served_lately() -> None:
    policy = Sjf(Facts())
    probe = make_ticket(num_prompt_tokens=1, max_new_tokens=10_000)
    for length in (10, 1000):
        for _ in range(4 * AnswerLength.WINDOW):
            policy.add(make_ticket(num_prompt_tokens=500), 0)
            ticket = admit(policy)
            policy.charge(ticket, 500)
            for _ in range(length - 1):
                policy.charge(ticket, 1)
        assert abs(policy.expected_tokens(probe) - length) <= 0.1 * length + 3


def test_who_gives_up_is_no_answer() -> None:
    policy = Sjf(Facts())
    probe = make_ticket(num_prompt_tokens=1, max_new_tokens=10_000)
    policy.add(make_ticket(num_prompt_tokens=1), 0)
    before = policy.expected_tokens(probe)
    for _ in range(1000):
        ticket = make_ticket(num_prompt_tokens=500)
        policy.add(ticket, 0)
        policy.remove(ticket)
    assert policy.expected_tokens(probe) == before


@given(
    facts=st.lists(st.tuples(st.integers(1, 4000), st.integers(0, 100)), min_size=1, max_size=20)
)
def test_the_order_is_that_of_arrival_plus_patience_times_work(
    facts: list[tuple[int, int]],
) -> None:
    def key(ticket: Ticket) -> float:
        return ticket.arrival_time + 20 * ((ticket.num_prompt_tokens + 7) * SECONDS_PER_TOKEN)

    tickets = [
        make_ticket(num_prompt_tokens=length, max_new_tokens=7, arrival_time=at)
        for length, at in facts
    ]
    order = service_order(Sjf(Facts(), patience=20), tickets)
    assert order == sorted(tickets, key=key)
