"""The longest cached beginning of a sequence, searched once until the answer may change.

Owns the last answer. The scheduler asks about the head of its queue several times in a step, and
again in the next; changes nothing in the index.

A beginning is worth something only if every group of layers has what the token behind it sees: full
attention all of it, a window its last stripes. Where a window's pages are gone, a shorter beginning
may still have all.
"""

from __future__ import annotations

from typing import NamedTuple

from octavo.core.page_groups import NO_PAGE, PageGroups
from octavo.core.sequence import Sequence
from octavo.kv.page_namer import PageNamer
from octavo.kv.prefix_index import PrefixIndex


class _Answer(NamedTuple):
    sequence: Sequence
    max_stripes: int
    version: int
    pages: list[int]


class PrefixSearch:
    def __init__(self, groups: PageGroups, index: PrefixIndex, namer: PageNamer) -> None:
        self._groups = groups
        self._index = index
        self._namer = namer
        self._nothing = [NO_PAGE] * groups.num
        self._last: _Answer | None = None

    def find(self, sequence: Sequence, max_stripes: int, num_settled: int) -> list[int]:
        """The beginning of a page table, of at most `max_stripes` whole stripes: pages that hold
        its tokens, or NO_PAGE of what is not seen from its end, nor from behind `num_settled`
        stripes. O(stripes), or O(1) if that was the last question and the index has not changed
        since. Not to be changed."""
        last, version = self._last, self._index.version
        if last is None or last[:3] != (sequence, max_stripes, version):
            pages = self._search(sequence, max_stripes, num_settled)
            last = self._last = _Answer(sequence, max_stripes, version, pages)
        return last.pages

    def forget(self, sequence: Sequence) -> None:
        """Its tokens may be others when it is asked about again."""
        if self._last is not None and self._last.sequence is sequence:
            self._last = None

    def _search(self, sequence: Sequence, max_stripes: int, num_settled: int) -> list[int]:
        groups = self._groups
        found: list[list[int]] = []
        num_useful = 0
        unbroken = [0] * groups.num
        """Of each group, how many stripes in a row have a page."""
        for num_stripes in range(1, max_stripes + 1):
            pages = self._index.find(self._namer.name(sequence, num_stripes - 1)) or self._nothing
            if NO_PAGE in pages[: groups.windowed.start]:
                break
            found.append(pages)
            for group in groups.windowed:
                unbroken[group] = 0 if pages[group] == NO_PAGE else unbroken[group] + 1
            settled = min(num_stripes, num_settled)
            if all(
                unbroken[group] >= num_stripes - groups.first_needed(group, settled)
                for group in groups.windowed
            ):
                num_useful = num_stripes
        return self._table(found[:num_useful], min(num_useful, num_settled))

    def _table(self, found: list[list[int]], num_settled: int) -> list[int]:
        groups = self._groups
        firsts = [groups.first_needed(group, num_settled) for group in range(groups.num)]
        return [
            page if stripe >= first else NO_PAGE
            for stripe, pages in enumerate(found)
            for page, first in zip(pages, firsts, strict=True)
        ]
