"""Pages that running sequences may count on, so that what was admitted is not sent back at once.

Owns numbers only: by how many stripes (`core.page_groups`) each running sequence may still grow
before anybody else does. Must not know which pages, nor who is preempted.

A newcomer is promised one stripe to grow into. Each time it is preempted the promise doubles, up to
all that it can ever need; nobody is admitted unless all promises are covered by free pages, and
nobody grows into what others were promised. So a sequence is sent back at most log2(stripes of its
longest answer) times before it has a promise for the rest of its life: cycles of preemption and
return die out.
"""

from __future__ import annotations

from octavo.core.page_groups import PageGroups
from octavo.core.sequence import Sequence


class PagePromises:
    """All operations are O(1)."""

    def __init__(self, groups: PageGroups) -> None:
        self._groups = groups
        self._open: dict[Sequence, int] = {}
        self._num_spent = 0  # sequences whose promise is used up
        self.num_pages = 0
        """That all promises together come to."""

    @property
    def num_pages_to_keep(self) -> int:
        """What admission leaves free: all promises, and a stripe for each whose promise is used up,
        since it will want one soon."""
        return self.num_pages + self._num_spent * self._groups.num

    @staticmethod
    def size_for(num_preemptions: int, max_growth: int, width: int = 1) -> int:
        """The promise that a sequence needs which can grow by at most `max_growth` stripes, or
        beams that are `width` such."""
        return min(width << min(num_preemptions, 62), max_growth)

    def pages_for(self, sequence: Sequence, num_stripes: int) -> int:
        """What growing by so many takes. Beams give nothing back while they grow."""
        if sequence.params.use_beam_search:
            return num_stripes * self._groups.num
        return self._groups.num_pages(num_stripes)

    def give(self, sequence: Sequence, num_stripes: int) -> None:
        """To a sequence that has no promise."""
        assert sequence not in self._open
        self._open[sequence] = num_stripes
        self.num_pages += self.pages_for(sequence, num_stripes)
        self._num_spent += num_stripes == 0

    def left(self, sequence: Sequence) -> int:
        """Pages."""
        return self.pages_for(sequence, self._open.get(sequence, 0))

    def use(self, sequence: Sequence, num_stripes: int) -> None:
        """It grew by so many; those beyond its promise concern nobody here."""
        left = self._open.get(sequence, 0)
        if left and num_stripes:
            self.num_pages -= self.left(sequence)
            self._open[sequence] = max(0, left - num_stripes)
            self.num_pages += self.left(sequence)
            self._num_spent += self._open[sequence] == 0

    def drop(self, sequence: Sequence) -> None:
        """It runs no more. Idempotent."""
        if sequence in self._open:
            self.num_pages -= self.left(sequence)
            self._num_spent -= self._open.pop(sequence) == 0
