"""The contract of a scheduling policy: in which order waiting sequences are admitted.

A policy owns an order and nothing else. It sees tickets, not sequences; it must not know pages,
budgets or who runs. Policies may come from outside (`scheduler.policies.registry`); those of
contract version 1 pass `scheduler.policies.conformance`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

CONTRACT_VERSION = 1


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Ticket:
    """What a policy may know of a waiting sequence. Compared by identity.

    `arrival_time` and `deadline` are seconds of one clock, the same that `now` comes from;
    `deadline` is infinite if there is none. `priority`: smaller runs first. `max_new_tokens` is
    the most that it can answer. `tenant` is "" where nobody has a name.
    """

    request_id: str
    index: int
    tenant: str
    priority: int
    arrival_time: float
    num_prompt_tokens: int
    max_new_tokens: int
    deadline: float = math.inf


class PolicyFacts(Protocol):
    """What a policy may ask. Every answer costs at most O(prompt pages) and changes nothing."""

    def num_cached_tokens(self, ticket: Ticket) -> int:
        """Tokens of its prompt that the prefix cache would serve now."""

    def weight(self, tenant: str) -> float:
        """The tenant's share relative to others; 1 unless configured. Above 0."""

    def seconds(self, num_prompt_tokens: int, num_new_tokens: int = 0) -> float:
        """Predicted time from admission to an answer of so many tokens (0: until the prompt is
        computed), by the steps measured so far; a prompt counts 0 before enough of them were."""


class SchedulingPolicy(Protocol):
    """The scheduler admits the head, or nobody: there is no overtaking past a head that does not
    fit. So a policy starves nobody as long as every ticket becomes the head in bounded time.

    `head` is asked several times per step, with 100,000 tickets waiting: O(1), O(log waiting), or
    a bounded look at the first few. Calls come from one thread; `now` never goes back.
    """

    contract_version: int
    """1: this contract."""

    def __len__(self) -> int: ...

    def add(self, ticket: Ticket, now: float) -> None:
        """A ticket that is not here arrives."""

    def remove(self, ticket: Ticket) -> None:
        """It is admitted or gave up. Does nothing if it is not here."""

    def head(self, now: float) -> Ticket | None:
        """Who is next; None if nobody waits. Changes nobody's turn: asked again at the same `now`
        it gives the same answer until a ticket comes or goes or is charged for."""

    def charge(self, ticket: Ticket, num_tokens: int) -> None:
        """So many tokens were computed for a ticket that was admitted. Most policies ignore it."""


PolicyFactory = Callable[[PolicyFacts], SchedulingPolicy]
"""How a policy is made: one per scheduler, sometimes two."""
