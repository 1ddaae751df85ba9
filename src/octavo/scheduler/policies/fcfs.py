"""First come, first served. Nobody starves: a head leaves before anybody who came later."""

from __future__ import annotations

from octavo.scheduler.policy import CONTRACT_VERSION, PolicyFacts, Ticket


class Fcfs:
    """Every operation is O(1)."""

    contract_version = CONTRACT_VERSION

    def __init__(self, facts: PolicyFacts) -> None:
        del facts  # the order of arrival is all that counts
        self._tickets: dict[Ticket, None] = {}

    def __len__(self) -> int:
        return len(self._tickets)

    def add(self, ticket: Ticket, now: float) -> None:
        del now
        self._tickets[ticket] = None

    def remove(self, ticket: Ticket) -> None:
        self._tickets.pop(ticket, None)

    def head(self, now: float) -> Ticket | None:
        del now
        return next(iter(self._tickets), None)

    def charge(self, ticket: Ticket, num_tokens: int) -> None:
        """What it costs makes no difference."""
