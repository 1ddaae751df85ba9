"""The longest cached beginning of a sequence, searched once until the answer may change.

Owns the last answer. The scheduler asks about the head of its queue several times in a step, and
again in the next; changes nothing in the index.
"""

from __future__ import annotations

from typing import NamedTuple

from octavo.core.sequence import Sequence
from octavo.kv.page_namer import PageNamer
from octavo.kv.prefix_index import PrefixIndex


class _Answer(NamedTuple):
    sequence: Sequence
    max_pages: int
    version: int
    pages: list[int]


class PrefixSearch:
    def __init__(self, index: PrefixIndex, namer: PageNamer) -> None:
        self._index = index
        self._namer = namer
        self._last: _Answer | None = None

    def find(self, sequence: Sequence, max_pages: int) -> list[int]:
        """Pages that hold its first full pages' tokens, at most `max_pages`. O(pages), or O(1) if
        that was the last question and the index has not changed since. Not to be changed."""
        last, version = self._last, self._index.version
        if last is None or last[:3] != (sequence, max_pages, version):
            last = _Answer(sequence, max_pages, version, self._search(sequence, max_pages))
            self._last = last
        return last.pages

    def forget(self, sequence: Sequence) -> None:
        """Its tokens may be others when it is asked about again."""
        if self._last is not None and self._last.sequence is sequence:
            self._last = None

    def _search(self, sequence: Sequence, max_pages: int) -> list[int]:
        pages: list[int] = []
        for position in range(max_pages):
            page = self._index.find(self._namer.name(sequence, position))
            if page is None:
                break
            pages.append(page)
        return pages
