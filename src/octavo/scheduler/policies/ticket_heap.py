"""Tickets by a number that does not change while they wait; the smallest is first.

Owns the heap and nothing of what the numbers mean.
"""

from __future__ import annotations

import heapq
import itertools

from octavo.scheduler.policy import Ticket

_MIN_DEAD_ENTRIES = 64


class TicketHeap:
    """Equal keys: who was put in first. `put` and `first` are O(log tickets), amortised.

    Who leaves from the middle leaves a dead entry behind. Dead entries are dropped when they come
    to the top, or all together when they outnumber the living.
    """

    def __init__(self) -> None:
        self._entries: list[tuple[float, int, Ticket]] = []
        self._numbers: dict[Ticket, int] = {}  # of each ticket's living entry
        self._counter = itertools.count()

    def __len__(self) -> int:
        return len(self._numbers)

    def put(self, ticket: Ticket, key: float) -> None:
        """A ticket comes, or one that is here gets another key."""
        number = next(self._counter)
        self._numbers[ticket] = number
        heapq.heappush(self._entries, (key, number, ticket))

    def discard(self, ticket: Ticket) -> bool:
        """Whether it was here."""
        if self._numbers.pop(ticket, None) is None:
            return False
        if len(self._entries) > 2 * len(self._numbers) + _MIN_DEAD_ENTRIES:
            self._entries = [entry for entry in self._entries if self._is_alive(entry)]
            heapq.heapify(self._entries)
        return True

    def first(self) -> Ticket | None:
        while self._entries and not self._is_alive(self._entries[0]):
            heapq.heappop(self._entries)
        return self._entries[0][2] if self._entries else None

    def _is_alive(self, entry: tuple[float, int, Ticket]) -> bool:
        _, number, ticket = entry
        return self._numbers.get(ticket) == number
