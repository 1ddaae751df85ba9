"""Policies that break the contract, each in one way."""

from __future__ import annotations

from octavo.scheduler.policies.fcfs import Fcfs
from octavo.scheduler.policy import PolicyFacts, Ticket


class OldPolicy(Fcfs):
    contract_version = 0


class LosingPolicy(Fcfs):
    """Holds 20 tickets, and drops who comes then."""

    def add(self, ticket: Ticket, now: float) -> None:
        if len(self) < 20:
            super().add(ticket, now)


class InventingPolicy(Fcfs):
    """Goes on naming who has left."""

    last: Ticket | None = None

    def head(self, now: float) -> Ticket | None:
        self.last = self.last or super().head(now)
        return self.last


class RestlessPolicy(Fcfs):
    """Who was asked for goes to the end."""

    def head(self, now: float) -> Ticket | None:
        head = super().head(now)
        if head is not None:
            self._tickets.move_to_end(head)
        return head


class FussyPolicy(Fcfs):
    def remove(self, ticket: Ticket) -> None:
        del self._tickets[ticket]


class MergingPolicy(Fcfs):
    """Believes that a request's id names a ticket."""

    def __init__(self, facts: PolicyFacts) -> None:
        super().__init__(facts)
        self._by_id: dict[str, Ticket] = {}

    def add(self, ticket: Ticket, now: float) -> None:
        if ticket.request_id not in self._by_id:
            self._by_id[ticket.request_id] = ticket
            super().add(ticket, now)


class NewestFirstPolicy(Fcfs):
    def head(self, now: float) -> Ticket | None:  # noqa: ARG002
        return next(reversed(self._tickets), None)


class StrictPriorityPolicy(Fcfs):
    def head(self, now: float) -> Ticket | None:  # noqa: ARG002
        return min(self._tickets, key=lambda ticket: ticket.priority, default=None)


class ShortestFirstPolicy(Fcfs):
    def head(self, now: float) -> Ticket | None:  # noqa: ARG002
        return min(self._tickets, key=lambda ticket: ticket.num_prompt_tokens, default=None)


class BestCachedPolicy(Fcfs):
    def __init__(self, facts: PolicyFacts) -> None:
        super().__init__(facts)
        self._facts = facts

    def head(self, now: float) -> Ticket | None:  # noqa: ARG002
        return max(self._tickets, key=self._facts.num_cached_tokens, default=None)


class ScanningPolicy(Fcfs):
    """Right, and too slow: looks at everybody."""

    def head(self, now: float) -> Ticket | None:  # noqa: ARG002
        return min(self._tickets, key=lambda ticket: ticket.arrival_time, default=None)
