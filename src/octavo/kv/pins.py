"""Pins: pages of cached prefixes that must not be evicted, held by a name until it lets go.

Owns which pin holds which pages, and the bound on their number. A pin is one more reference to
each of its pages. Must not know what the pages hold.
"""

from __future__ import annotations

from octavo.core.page_groups import NO_PAGE
from octavo.kv.page_pool import PagePool


class Pins:
    """At most `max_pages` references in all."""

    def __init__(self, pool: PagePool, max_pages: int) -> None:
        self.max_pages = max_pages
        self._pool = pool
        self._pages: dict[str, list[int]] = {}

    @property
    def pages(self) -> list[int]:
        """One entry per reference."""
        return [page for pages in self._pages.values() for page in pages]

    @property
    def num_pages(self) -> int:
        return sum(map(len, self._pages.values()))

    def add(self, key: str, table: list[int]) -> bool:
        """Hold the cached pages in a page table by a key that is not in use. False if that would be
        too many."""
        assert key not in self._pages, f"pin {key!r} is in use"
        pages = [page for page in table if page != NO_PAGE]
        if self.num_pages + len(pages) > self.max_pages:
            return False
        for page in pages:
            self._pool.share(page)
        self._pages[key] = pages
        return True

    def remove(self, key: str) -> None:
        """Let go; the pages stay cached, the end of the text to be evicted first. Idempotent."""
        for page in reversed(self._pages.pop(key, [])):
            self._pool.release(page, keep=True)

    def clear(self) -> None:
        for key in list(self._pages):
            self.remove(key)
