"""Which replica gets a request: a protocol and five answers. Knows open requests, no engine.

A router sees what a real one in front of many servers could: names, beginnings, and which of its
requests are still open. Every answer costs O(1), however many replicas there are.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Protocol

from octavo.errors import ConfigError
from octavo.simulate.trace import TraceRequest

OVERLOAD = 1.25
"""A prefix's replica is left for another when it has more than so many times the mean of open
requests (consistent hashing with bounded loads: Mirrokni, Thorup, Zadimoghaddam 2018)."""


class OpenRequests:
    """How many requests each replica has open, and which have the fewest."""

    def __init__(self, num_replicas: int) -> None:
        self.counts = [0] * num_replicas
        self.total = 0
        self._by_count: list[dict[int, None]] = [dict.fromkeys(range(num_replicas))]
        self._fewest = 0

    def change(self, replica: int, by: int) -> None:
        """`by` is 1 or -1."""
        count = self.counts[replica]
        del self._by_count[count][replica]
        count += by
        if count == len(self._by_count):
            self._by_count.append({})
        self._by_count[count][replica] = None
        self.counts[replica] = count
        self.total += by
        if by < 0:
            self._fewest = min(self._fewest, count)
        while not self._by_count[self._fewest]:
            self._fewest += 1

    def least_loaded(self) -> int:
        """Of several, the one that has had so few for longest."""
        return next(iter(self._by_count[self._fewest]))


class Router(Protocol):
    def choose(self, request: TraceRequest, loads: OpenRequests) -> int:
        """The number of the replica that gets `request`."""


class RoundRobin:
    def __init__(self, num_replicas: int) -> None:
        self._num_replicas = num_replicas
        self._last = -1

    def choose(self, request: TraceRequest, loads: OpenRequests) -> int:  # noqa: ARG002
        self._last = (self._last + 1) % self._num_replicas
        return self._last


class Random:
    def __init__(self, num_replicas: int, seed: int = 0) -> None:
        self._num_replicas = num_replicas
        self._source = random.Random(seed)

    def choose(self, request: TraceRequest, loads: OpenRequests) -> int:  # noqa: ARG002
        return self._source.randrange(self._num_replicas)


class LeastLoaded:
    """Fewest open requests."""

    def __init__(self, num_replicas: int) -> None:  # as the others are made
        del num_replicas

    def choose(self, request: TraceRequest, loads: OpenRequests) -> int:  # noqa: ARG002
        return loads.least_loaded()


class PowerOfTwo:
    """The better of two at random (Mitzenmacher 2001): nearly as good, and needs no full view."""

    def __init__(self, num_replicas: int, seed: int = 0) -> None:
        self._num_replicas = num_replicas
        self._source = random.Random(seed)

    def choose(self, request: TraceRequest, loads: OpenRequests) -> int:  # noqa: ARG002
        first, second = (self._source.randrange(self._num_replicas) for _ in range(2))
        return first if loads.counts[first] <= loads.counts[second] else second


class PrefixAware:
    """Equal beginnings to one replica, whose cache has them, unless it has far too much to do.
    Without a beginning to share: least loaded."""

    def __init__(self, num_replicas: int, seed: int = 0) -> None:
        self._num_replicas = num_replicas
        self._seed = seed

    def choose(self, request: TraceRequest, loads: OpenRequests) -> int:
        if not request.prefix:
            return loads.least_loaded()
        source = random.Random(f"{self._seed}/{request.prefix[0]}")
        home = source.randrange(self._num_replicas)
        bound = OVERLOAD * (loads.total + 1) / self._num_replicas
        return home if loads.counts[home] < max(1.0, bound) else loads.least_loaded()


ROUTERS: Mapping[str, Callable[[int], Router]] = MappingProxyType(
    {
        "round_robin": RoundRobin,
        "random": Random,
        "least_loaded": LeastLoaded,
        "power_of_two": PowerOfTwo,
        "prefix_aware": PrefixAware,
    }
)


def make_router(name: str, num_replicas: int) -> Router:
    """Raises ConfigError for an unknown one."""
    if name not in ROUTERS:
        raise ConfigError(f"--router is {name!r}; one of {', '.join(ROUTERS)} is allowed")
    return ROUTERS[name](num_replicas)
