"""Slots of the swap space as plain numbers: which are free, and which hold whose pages.

Must not know where the slots are (host memory or a file), nor what moves into them.
"""

from __future__ import annotations

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
        """In the order of its pages. It must be held."""
        return self._slots[sequence]

    def put(self, sequence: Sequence, num_pages: int) -> list[int] | None:
        """Slots for a sequence that is not held; None if they lack."""
        assert sequence not in self._slots, "a sequence is swapped out twice"
        if self.num_slots == 0 or num_pages > len(self._free):
            return None
        self._slots[sequence] = [self._free.pop() for _ in range(num_pages)]
        return self._slots[sequence]

    def drop(self, sequence: Sequence) -> None:
        """Its slots are free again. Does nothing if it is not held."""
        self._free.extend(reversed(self._slots.pop(sequence, [])))

    def check_invariants(self) -> None:
        """Raise AssertionError unless every slot is free or held, once. For tests."""
        held = [slot for slots in self._slots.values() for slot in slots]
        assert sorted(self._free + held) == list(range(self.num_slots)), "slots lost or held twice"
