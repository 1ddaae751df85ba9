"""Cost of scheduling policies: microseconds of `add`, of `head` and of `remove`, by who waits.

    PYTHONPATH=src:. python -m benchmarks.scheduling.policies [--waiting 10 1000 100000] [NAME ...]

Each turn is what a scheduler does for one admission: a ticket comes, the head is asked for, removed
and charged for 20 times. Tickets differ in everything, come from 100 tenants, and a quarter of the
prompt is cached (asking that costs next to nothing here, unlike in a real prefix cache).
Medians of turns.
"""

from __future__ import annotations

import argparse
import itertools
import random
import time
from collections.abc import Iterator
from statistics import median

from octavo.config.engine import EngineConfig
from octavo.scheduler.policies.registry import POLICIES, find_factory
from octavo.scheduler.policy import SchedulingPolicy, Ticket

NUM_TURNS = 2000
CALLS = ("add", "head", "remove", "charge")


class Facts:
    def num_cached_tokens(self, ticket: Ticket) -> int:
        return ticket.num_prompt_tokens // 4

    def weight(self, _tenant: str) -> float:
        return 1.0

    def seconds(self, num_prompt_tokens: int, num_new_tokens: int = 0) -> float:
        return (num_prompt_tokens + num_new_tokens) * 1e-3


def tickets() -> Iterator[Ticket]:
    """One each millisecond."""
    source = random.Random(0)
    now = 0.0
    while True:
        now += 1e-3
        yield Ticket(
            request_id="",
            index=0,
            tenant=str(source.randrange(100)),
            priority=source.randrange(10),
            arrival_time=now,
            num_prompt_tokens=source.randrange(1, 4000),
            max_new_tokens=source.randrange(1, 1000),
            deadline=now + 1e6 * source.random(),
        )


def turn(policy: SchedulingPolicy, ticket: Ticket) -> list[float]:
    """Seconds of one call each, by CALLS."""
    now = ticket.arrival_time
    times = [time.perf_counter()]
    policy.add(ticket, now)
    times.append(time.perf_counter())
    head = policy.head(now)
    times.append(time.perf_counter())
    assert head is not None
    policy.remove(head)
    times.append(time.perf_counter())
    for _ in range(20):
        policy.charge(head, 1)
    times.append(time.perf_counter())
    add, ask, remove, charges = (after - before for before, after in itertools.pairwise(times))
    return [add, ask, remove, charges / 20]


def measure(name: str, num_waiting: int) -> list[float]:
    """Median seconds by CALLS."""
    policy = find_factory(EngineConfig(scheduling_policy=name))(Facts())
    arrivals = tickets()
    for _ in range(num_waiting):
        ticket = next(arrivals)
        policy.add(ticket, ticket.arrival_time)
    turns = [turn(policy, next(arrivals)) for _ in range(NUM_TURNS)]
    return [median(seconds) for seconds in zip(*turns, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("policies", nargs="*", default=list(POLICIES), metavar="NAME")
    parser.add_argument("--waiting", nargs="+", type=int, default=[10, 1000, 100_000])
    arguments = parser.parse_args()
    print(f"{'microseconds':14}{'waiting':>9}", *(f"{call:>8}" for call in CALLS))
    for name in arguments.policies:
        for num_waiting in arguments.waiting:
            costs = measure(name, num_waiting)
            print(f"{name:14}{num_waiting:>9}", *(f"{1e6 * cost:8.2f}" for cost in costs))


if __name__ == "__main__":
    main()
