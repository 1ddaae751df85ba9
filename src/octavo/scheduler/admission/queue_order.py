"""Whom a newcomer would have to wait for: those in the queue whom the scheduling policy puts first.

Owns sums over what was admitted and has no first token yet. The policy itself lives with the
engine, which may be another process; here is told what its rules make of who waits. Of policies
that go by more than that (the prefix cache, or rules from outside) it is the order of arrival.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple, Protocol

from octavo.config.engine import EngineConfig
from octavo.scheduler.policies.deadline import due_time
from octavo.scheduler.policies.priority import aged_priority
from octavo.scheduler.policies.sjf import aged_job
from octavo.scheduler.policy import Ticket


class Waiting(NamedTuple):
    """`num_tokens` are of their prompts."""

    num_sequences: int
    num_tokens: int


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """A request in the queue, compared by identity. `weight` is its tenant's; `job_seconds` what
    its tokens would take at the speed of prompts."""

    ticket: Ticket
    num_sequences: int
    weight: float
    job_seconds: float


class QueueOrder(Protocol):
    """A place that was added is removed once."""

    def add(self, place: Place) -> None: ...

    def remove(self, place: Place) -> None: ...

    def ahead_of(self, place: Place) -> Waiting:
        """Of those who wait, all who would go before a newcomer."""


class ByArrival:
    """That is everybody."""

    def __init__(self) -> None:
        self.all = Waiting(0, 0)

    def add(self, place: Place) -> None:
        self._change(place, 1)

    def remove(self, place: Place) -> None:
        self._change(place, -1)

    def ahead_of(self, place: Place) -> Waiting:  # noqa: ARG002
        return self.all

    def _change(self, place: Place, sign: int) -> None:
        num_sequences, num_tokens = self.all
        self.all = Waiting(
            num_sequences + sign * place.num_sequences,
            num_tokens + sign * place.ticket.num_prompt_tokens,
        )


class ByKey:
    """For policies that give each ticket a number which does not change while it waits; the smaller
    one goes first, and of equal ones the older. Three columns in that order: a search, moves of
    memory and sums, some 10 us where 1,000 wait and 1 ms where 100,000 do."""

    def __init__(self, key: Callable[[Place], float]) -> None:
        self._key = key
        self._keys: list[tuple[float, int]] = []
        self._num_sequences: list[int] = []
        self._num_tokens: list[int] = []
        self._key_of: dict[Place, tuple[float, int]] = {}
        self._numbers = count()

    def add(self, place: Place) -> None:
        key = self._key_of[place] = (self._key(place), next(self._numbers))
        index = bisect_left(self._keys, key)
        self._keys.insert(index, key)
        self._num_sequences.insert(index, place.num_sequences)
        self._num_tokens.insert(index, place.ticket.num_prompt_tokens)

    def remove(self, place: Place) -> None:
        index = bisect_left(self._keys, self._key_of.pop(place))
        for column in (self._keys, self._num_sequences, self._num_tokens):
            del column[index]

    def ahead_of(self, place: Place) -> Waiting:
        index = bisect_right(self._keys, (self._key(place), math.inf))
        return Waiting(sum(self._num_sequences[:index]), sum(self._num_tokens[:index]))


@dataclass(slots=True)
class _TenantQueue:
    weight: float
    waiting: ByArrival


class ByTenant:
    """For fair shares: until a newcomer's turn comes, each other tenant gets no more tokens per
    weight than its own one, which serves first what it sent before."""

    def __init__(self) -> None:
        self._queues: dict[str, _TenantQueue] = {}

    def add(self, place: Place) -> None:
        name = place.ticket.tenant
        if name not in self._queues:
            self._queues[name] = _TenantQueue(place.weight, ByArrival())
        self._queues[name].waiting.add(place)

    def remove(self, place: Place) -> None:
        waiting = self._queues[place.ticket.tenant].waiting
        waiting.remove(place)
        if not waiting.all.num_sequences:
            del self._queues[place.ticket.tenant]

    def ahead_of(self, place: Place) -> Waiting:
        own = self._queues.get(place.ticket.tenant)
        if own is None:
            return Waiting(0, 0)
        tokens_per_weight = own.waiting.all.num_tokens / own.weight
        num_sequences = num_tokens = 0.0
        for queue in self._queues.values():
            there = queue.waiting.all
            part = min(1.0, tokens_per_weight * queue.weight / max(1, there.num_tokens))
            num_sequences += part * there.num_sequences
            num_tokens += part * there.num_tokens
        return Waiting(round(num_sequences), round(num_tokens))


def queue_order(config: EngineConfig) -> QueueOrder:
    """That of `config.scheduling_policy`."""
    match config.scheduling_policy:
        case "priority":
            ageing_seconds = config.priority_ageing_seconds
            return ByKey(lambda place: aged_priority(place.ticket, ageing_seconds))
        case "deadline":
            horizon_seconds = config.deadline_horizon_seconds
            return ByKey(lambda place: due_time(place.ticket, horizon_seconds))
        case "sjf":
            return ByKey(lambda place: aged_job(place.ticket, place.job_seconds))
        case "fair":
            return ByTenant()
    return ByArrival()
