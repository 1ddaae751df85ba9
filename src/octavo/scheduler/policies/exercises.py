"""What the checks of a policy put it through: random calls, adversaries, a crowd.

Knows no policy, and not what is demanded of one beyond its heads being tickets that wait.
"""

from __future__ import annotations

import itertools
import math
import random
import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING

from octavo.config.plugin_report import demand
from octavo.scheduler.policy import PolicyFactory, SchedulingPolicy, Ticket

if TYPE_CHECKING:
    from _typeshed import TraceFunction

SECONDS_PER_TOKEN = 1e-3
MAX_ADMISSIONS = 10_000
"""Everybody must be next after so many admissions, one a second."""

NUM_TURNS = 64
"""Over which the cost of a turn is averaged: some work is put off and done in bulk."""


class Facts:
    """A quarter of each prompt of tenant "a" is cached, and nothing of other prompts; tenant "b"
    has the weight 2."""

    def num_cached_tokens(self, ticket: Ticket) -> int:
        return ticket.num_prompt_tokens // 4 if ticket.tenant == "a" else 0

    def weight(self, tenant: str) -> float:
        return 2.0 if tenant == "b" else 1.0

    def seconds(self, num_prompt_tokens: int, num_new_tokens: int = 0) -> float:
        return (num_prompt_tokens + num_new_tokens) * SECONDS_PER_TOKEN


def make_ticket(
    *,
    tenant: str = "",
    priority: int = 0,
    arrival_time: float = 0.0,
    num_prompt_tokens: int = 100,
    max_new_tokens: int = 100,
    deadline: float = math.inf,
) -> Ticket:
    return Ticket(
        request_id="request",
        index=0,
        tenant=tenant,
        priority=priority,
        arrival_time=arrival_time,
        num_prompt_tokens=num_prompt_tokens,
        max_new_tokens=max_new_tokens,
        deadline=deadline,
    )


Favourite = Callable[[float, int], Ticket]
UNFAVOURABLE: tuple[tuple[str, Callable[[float], Ticket], Favourite], ...] = (
    (
        "a low priority",
        lambda now: make_ticket(priority=5, arrival_time=now),
        lambda now, _: make_ticket(priority=-5, arrival_time=now),
    ),
    (
        "a long job",
        lambda now: make_ticket(num_prompt_tokens=20_000, arrival_time=now),
        lambda now, _: make_ticket(num_prompt_tokens=1, max_new_tokens=1, arrival_time=now),
    ),
    (
        "a tenant among eight",
        lambda now: make_ticket(tenant="heavy", arrival_time=now),
        lambda now, number: make_ticket(tenant=f"light-{number % 8}", arrival_time=now),
    ),
    (
        "a tenant among ever new ones",
        lambda now: make_ticket(tenant="heavy", arrival_time=now),
        lambda now, number: make_ticket(tenant=f"new-{number}", arrival_time=now),
    ),
    (
        "a ticket without deadline",
        lambda now: make_ticket(arrival_time=now),
        lambda now, _: make_ticket(arrival_time=now, deadline=now + 10),
    ),
    (
        "a ticket past its deadline",
        lambda now: make_ticket(arrival_time=now, deadline=now),
        lambda now, _: make_ticket(arrival_time=now, deadline=now + 10),
    ),
    (
        "a prompt that is not cached",
        lambda now: make_ticket(tenant="b", arrival_time=now),
        lambda now, _: make_ticket(tenant="a", num_prompt_tokens=1000, arrival_time=now),
    ),
)


def becomes_head(policy: SchedulingPolicy, ticket: Ticket, favourite: Favourite) -> bool:
    """Within MAX_ADMISSIONS, one a second, each followed by the arrival of one more favourite."""
    for number in range(MAX_ADMISSIONS):
        now = float(number)
        head = policy.head(now)
        if head is ticket:
            return True
        if head is None:
            return False
        policy.remove(head)
        policy.charge(head, head.num_prompt_tokens)
        policy.add(favourite(now, number), now)
    return False


def exercised(factory: PolicyFactory, seed: int) -> tuple[SchedulingPolicy, set[Ticket], float]:
    """A policy after 300 random calls, who waits in it, and the time."""
    source = random.Random(seed)
    policy = factory(Facts())
    here: dict[Ticket, None] = {}
    gone: list[Ticket] = [make_ticket(tenant="never seen")]
    now = 0.0
    for _ in range(300):
        now += source.choice([0.0, 1.0, 20.0])
        action = source.choice(["add", "add", "admit", "give up", "charge"])
        leaver = None
        if action == "add":
            ticket = _random_ticket(source, now)
            here[ticket] = None
            policy.add(ticket, now)
        elif action == "charge":
            policy.charge(source.choice(gone), source.choice([1, 100]))
        elif action == "admit":
            leaver = policy.head(now)
        elif here:
            leaver = source.choice(list(here))
        if leaver is not None:
            demand(leaver in here, f"head is {leaver} and does not wait")
            policy.remove(leaver)
            del here[leaver]
            gone.append(leaver)
    return policy, set(here), now


def _random_ticket(source: random.Random, now: float) -> Ticket:
    return make_ticket(
        tenant=source.choice(["", "a", "b", "c"]),
        priority=source.randint(-2, 2),
        arrival_time=now,
        num_prompt_tokens=source.choice([1, 50, 5000]),
        max_new_tokens=source.choice([1, 500]),
        deadline=now + source.choice([0.0, 1.0, 30.0, math.inf]),
    )


class _WatchedTicket(Ticket):
    """Reading a field executes a line of Python, so that it is counted."""

    __slots__ = ()

    def __getattribute__(self, name: str) -> object:
        return object.__getattribute__(self, name)


def lines_per_turn(factory: PolicyFactory, num_waiting: int, enough: float = math.inf) -> float:
    """Mean of NUM_TURNS; counting ends as soon as it must exceed `enough`."""
    policy = factory(Facts())
    source = random.Random(num_waiting)
    tickets = (_watched_ticket(source, 1e-3 * number) for number in itertools.count())
    for ticket in itertools.islice(tickets, num_waiting):
        policy.add(ticket, ticket.arrival_time)
    policy.head(1e-3 * num_waiting)
    num_lines = 0
    for ticket in itertools.islice(tickets, NUM_TURNS):
        num_lines += _num_lines(partial(_take_turn, policy, ticket))
        if num_lines > enough * NUM_TURNS:
            break
    return num_lines / NUM_TURNS


def _watched_ticket(source: random.Random, now: float) -> Ticket:
    return _WatchedTicket(
        request_id="request",
        index=0,
        tenant=str(source.randrange(1000)),
        priority=source.randrange(10),
        arrival_time=now,
        num_prompt_tokens=source.randrange(1, 4000),
        max_new_tokens=100,
        deadline=now + 1e6,
    )


def _take_turn(policy: SchedulingPolicy, arrival: Ticket) -> None:
    now = arrival.arrival_time
    policy.add(arrival, now)
    for _ in range(3):
        head = policy.head(now)
    assert head is not None
    policy.remove(head)
    policy.charge(head, 100)


def _num_lines(call: Callable[[], None]) -> int:
    """Lines of Python that are executed by `call`. A tracer that is set rests meanwhile."""
    num_lines = 0

    def trace(_frame: FrameType, event: str, _argument: object) -> TraceFunction:
        nonlocal num_lines
        num_lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return num_lines
