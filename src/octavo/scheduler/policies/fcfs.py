"""First come, first served: the order in which tickets were added. Looks at nothing else.

Nobody starves: who is behind m tickets is next after m of them have gone, whoever comes later.
"""

from __future__ import annotations

from collections import OrderedDict

from octavo.scheduler.policy import CONTRACT_VERSION, PolicyFacts, Ticket


class Fcfs:
    """Every call is O(1). (A plain dict is not: its first key is behind all deleted ones.)"""

    contract_version = CONTRACT_VERSION

    def __init__(self, _facts: PolicyFacts) -> None:
        self._tickets: OrderedDict[Ticket, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._tickets)

    def add(self, ticket: Ticket, now: float) -> None:  # noqa: ARG002
        self._tickets[ticket] = None

    def remove(self, ticket: Ticket) -> None:
        self._tickets.pop(ticket, None)

    def head(self, now: float) -> Ticket | None:  # noqa: ARG002
        return next(iter(self._tickets), None)

    def charge(self, ticket: Ticket, num_tokens: int) -> None:
        """Changes nothing."""
