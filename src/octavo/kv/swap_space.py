"""Slots of the swap space as plain numbers: which are free, and which hold whose pages.

Must not know where the slots are (host memory or a file), nor what moves into them.
"""

from __future__ import annotations

from octavo.core.page_groups import NO_PAGE
from octavo.core.sequence import Sequence


class SwapSpace:
    """`num_slots` slots of one page each, numbered from 0. O(slots touched)."""

    def __init__(self, num_slots: int) -> None:
        self.num_slots = num_slots
        self._free = list(range(num_slots - 1, -1, -1))
        self._slots: dict[Sequence, list[int]] = {}

    @property
    def num_used(self) -> int:
        return self.num_slots - len(self._free)

    @property
    def num_sequences(self) -> int:
        return len(self._slots)

    def holds(self, sequence: Sequence) -> bool:
        return sequence in self._slots

    def slots_of(self, sequence: Sequence) -> list[int]:
        """As `put` gave them. It must be held."""
        return self._slots[sequence]

    def put(self, sequence: Sequence, table: list[int]) -> list[int] | None:
        """A slot for each page in a page table of a sequence that is not held, NO_PAGE for each
        NO_PAGE; None if slots lack."""
        assert sequence not in self._slots, "a sequence is swapped out twice"
        if self.num_slots == 0 or len(table) - table.count(NO_PAGE) > len(self._free):
            return None
        slots = [NO_PAGE if page == NO_PAGE else self._free.pop() for page in table]
        self._slots[sequence] = slots
        return slots

    def drop(self, sequence: Sequence) -> None:
        """Its slots are free again. Does nothing if it is not held."""
        slots = reversed(self._slots.pop(sequence, []))
        self._free.extend(slot for slot in slots if slot != NO_PAGE)

    def check_invariants(self) -> None:
        """Raise AssertionError unless every slot is free or held, once. For tests."""
        held = [slot for slots in self._slots.values() for slot in slots if slot != NO_PAGE]
        assert sorted(self._free + held) == list(range(self.num_slots)), "slots lost or held twice"
