"""Where requests go: what each router promises."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.errors import ConfigError
from octavo.simulate.routers import ROUTERS, OpenRequests, make_router
from tests.simulate.machines import request

PREFIXED = request(prefix=((7, 16),))


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans()), max_size=60))
def test_open_requests_know_the_fewest(changes: list[tuple[int, bool]]) -> None:
    loads = OpenRequests(5)
    counts = [0] * 5
    for replica, is_start in changes:
        by = 1 if is_start or counts[replica] == 0 else -1
        loads.change(replica, by)
        counts[replica] += by
        assert loads.counts == counts
        assert loads.total == sum(counts)
        assert counts[loads.least_loaded()] == min(counts)


def dealt(name: str, num_replicas: int, num_requests: int, prefix: bool = False) -> list[int]:
    """Requests that never end, and how many each replica got."""
    router, loads = make_router(name, num_replicas), OpenRequests(num_replicas)
    for _ in range(num_requests):
        loads.change(router.choose(PREFIXED if prefix else request(), loads), 1)
    return loads.counts


@pytest.mark.parametrize("name", ["round_robin", "least_loaded", "prefix_aware"])
def test_requests_are_dealt_evenly(name: str) -> None:
    assert set(dealt(name, 10, 200)) == {20}


def test_two_choices_are_much_better_than_one() -> None:
    one, two = (max(dealt(name, 100, 10_000)) for name in ("random", "power_of_two"))
    assert two <= 105
    assert one >= 115


def test_equal_beginnings_go_to_one_replica_as_long_as_it_is_not_overloaded() -> None:
    router, loads = make_router("prefix_aware", 10), OpenRequests(10)
    homes = set()
    for _ in range(50):
        chosen = router.choose(PREFIXED, loads)
        loads.change(chosen, 1)
        homes.add(chosen)
        loads.change(chosen, -1)
    assert len(homes) == 1


def test_a_popular_beginning_does_not_overload_its_replica() -> None:
    assert max(dealt("prefix_aware", 10, 200, prefix=True)) <= 1.25 * 20 + 1


def test_beginnings_spread_over_all_replicas() -> None:
    router, loads = make_router("prefix_aware", 8), OpenRequests(8)
    source = random.Random(0)
    names = [source.randrange(10**6) for _ in range(400)]
    homes = Counter(router.choose(request(prefix=((name, 16),)), loads) for name in names)
    assert len(homes) == 8


def test_an_unknown_router_is_refused() -> None:
    with pytest.raises(ConfigError, match=f"one of {', '.join(ROUTERS)} is allowed"):
        make_router("psychic", 2)
