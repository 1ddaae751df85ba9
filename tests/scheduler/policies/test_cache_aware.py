"""The longest cached prefix among the oldest goes first, and overtakes nobody too often."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from octavo.scheduler.policies.cache_aware import CacheAware
from octavo.scheduler.policies.exercises import Facts, make_ticket
from octavo.scheduler.policy import Ticket
from tests.scheduler.policies.drive import admit, service_order


class PriorityAsCache(Facts):
    """Tells a ticket's priority as what is cached of it; counts how often it is asked."""

    def __init__(self) -> None:
        self.num_calls = 0

    def num_cached_tokens(self, ticket: Ticket) -> int:
        self.num_calls += 1
        return ticket.priority


def cached(num_tokens: int) -> Ticket:
    return make_ticket(priority=num_tokens)


def test_the_longest_cached_prefix_goes_first_and_equals_in_order() -> None:
    tickets = [cached(number) for number in (0, 64, 32, 64)]
    order = service_order(CacheAware(PriorityAsCache()), tickets)
    assert order == [tickets[1], tickets[3], tickets[2], tickets[0]]


def test_only_the_oldest_are_looked_at() -> None:
    tickets = [cached(number) for number in (0, 16, 32, 48)]
    order = service_order(CacheAware(PriorityAsCache(), window=2), tickets)
    assert order == [tickets[1], tickets[2], tickets[3], tickets[0]]


def test_the_cache_is_asked_again_only_when_time_or_the_window_changed() -> None:
    facts = PriorityAsCache()
    policy = CacheAware(facts, window=4)
    for number in range(100):
        policy.add(cached(number), 0)
    for _ in range(5):
        policy.head(1)
    assert facts.num_calls == 4
    policy.add(cached(5), 1)
    policy.head(1)
    assert facts.num_calls == 4
    policy.head(2)
    assert facts.num_calls == 8
    admit(policy, 2)
    policy.head(2)
    assert facts.num_calls == 12


def test_a_newcomer_within_the_window_is_looked_at_at_once() -> None:
    policy = CacheAware(PriorityAsCache())
    policy.add(cached(1), 0)
    assert policy.head(0) is not None
    better = cached(2)
    policy.add(better, 0)
    assert policy.head(0) is better


@given(
    lengths=st.lists(st.integers(0, 5), min_size=1, max_size=60),
    window=st.integers(1, 6),
    max_overtaken=st.integers(0, 5),
    stock=st.integers(1, 12),
)
def test_nobody_is_overtaken_more_often_than_allowed(
    lengths: list[int], window: int, max_overtaken: int, stock: int
) -> None:
    policy = CacheAware(PriorityAsCache(), window=window, max_overtaken=max_overtaken)
    tickets = [cached(length) for length in lengths]
    order: list[Ticket] = []
    for number, ticket in enumerate(tickets):
        policy.add(ticket, number)
        if len(policy) > stock:
            order.append(admit(policy, number))
    order += service_order(policy, [], len(tickets))
    places = {ticket: place for place, ticket in enumerate(order)}
    for number, ticket in enumerate(tickets):
        overtakers = [other for other in tickets[number + 1 :] if places[other] < places[ticket]]
        assert len(overtakers) <= max_overtaken
