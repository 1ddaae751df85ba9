"""Pages that running sequences may count on, so that what was admitted is not sent back at once.

Owns numbers only: how many pages each running sequence may still take before anybody else does.
Must not know which pages, nor who is preempted.

A newcomer is promised one page to grow into. Each time it is preempted the promise doubles, up to
all that it can ever need; nobody is admitted unless all promises are covered by free pages, and
nobody grows into what others were promised. So a sequence is sent back at most log2(pages of its
longest answer) times before it has a promise for the rest of its life: cycles of preemption and
return die out.
"""

from __future__ import annotations

from octavo.core.sequence import Sequence


class PagePromises:
    """All operations are O(1)."""

    def __init__(self) -> None:
        self._open: dict[Sequence, int] = {}
        self._num_spent = 0  # sequences whose promise is used up
        self.num_pages = 0
        """Promised and not yet taken, by all together."""

    @property
    def num_pages_to_keep(self) -> int:
        """What admission leaves free: all promises, and a page for each whose promise is used up,
        since it will want one soon."""
        return self.num_pages + self._num_spent

    @staticmethod
    def size_for(num_preemptions: int, max_growth: int, width: int = 1) -> int:
        """The promise that a sequence needs which can grow by at most `max_growth` pages, or beams
        that are `width` such."""
        return min(width << min(num_preemptions, 62), max_growth)

    def give(self, sequence: Sequence, num_pages: int) -> None:
        """To a sequence that has no promise."""
        assert sequence not in self._open
        self._open[sequence] = num_pages
        self.num_pages += num_pages
        self._num_spent += num_pages == 0

    def left(self, sequence: Sequence) -> int:
        return self._open.get(sequence, 0)

    def use(self, sequence: Sequence, num_pages: int) -> None:
        """It took so many pages; those beyond its promise concern nobody here."""
        used = min(num_pages, self.left(sequence))
        if used:
            self._open[sequence] -= used
            self.num_pages -= used
            self._num_spent += self._open[sequence] == 0

    def drop(self, sequence: Sequence) -> None:
        """It runs no more. Idempotent."""
        if sequence in self._open:
            num_left = self._open.pop(sequence)
            self.num_pages -= num_left
            self._num_spent -= num_left == 0
