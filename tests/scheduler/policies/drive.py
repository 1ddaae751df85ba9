"""Serves what waits in a policy, head by head."""

from __future__ import annotations

from collections.abc import Iterable

from octavo.scheduler.policy import SchedulingPolicy, Ticket


def admit(policy: SchedulingPolicy, now: float = 0.0) -> Ticket:
    """The head, taken out."""
    head = policy.head(now)
    assert head is not None
    policy.remove(head)
    return head


def service_order(
    policy: SchedulingPolicy, tickets: Iterable[Ticket], now: float = 0.0
) -> list[Ticket]:
    """In which order they are served when all are there at `now` and nobody else comes."""
    for ticket in tickets:
        policy.add(ticket, now)
    return [admit(policy, now) for _ in range(len(policy))]
