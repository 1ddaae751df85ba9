"""Smaller priority first, with linear ageing. Looks at priority and arrival alone.

A waiting ticket gains one step of priority in each `ageing_seconds`. What counts at time t is

    priority - (t - arrival) / ageing_seconds,

and as t is the same for all, the order is that of `arrival + priority * ageing_seconds`, which does
not change while they wait: a heap suffices, and nobody's priority is ever recomputed.

Nobody starves: a ticket is overtaken only by tickets whose key is smaller, so by those of priority
q that arrived at most `(its priority - q) * ageing_seconds` after it.

The sign is vLLM's, and Unix's. Ageing: Silberschatz, Galvin, Gagne, Operating System Concepts,
chapter on CPU scheduling. As a fixed head start per class: J. R. Jackson, Some problems in queueing
with dynamic priorities, Naval Research Logistics Quarterly, 1960.
"""

from __future__ import annotations

from octavo.scheduler.policies.ticket_heap import TicketHeap
from octavo.scheduler.policy import CONTRACT_VERSION, PolicyFacts, Ticket


def aged_priority(ticket: Ticket, ageing_seconds: float) -> float:
    """Who has less goes first."""
    return ticket.arrival_time + ticket.priority * ageing_seconds


class Priority:
    """`add` and `head` are O(log waiting), amortised."""

    contract_version = CONTRACT_VERSION

    def __init__(self, _facts: PolicyFacts, *, ageing_seconds: float) -> None:
        self._ageing_seconds = ageing_seconds
        self._heap = TicketHeap()

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, ticket: Ticket, now: float) -> None:  # noqa: ARG002
        self._heap.put(ticket, aged_priority(ticket, self._ageing_seconds))

    def remove(self, ticket: Ticket) -> None:
        self._heap.discard(ticket)

    def head(self, now: float) -> Ticket | None:  # noqa: ARG002
        return self._heap.first()

    def charge(self, ticket: Ticket, num_tokens: int) -> None:
        """Changes nothing."""
