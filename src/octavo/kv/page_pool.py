"""Pages of key/value memory as plain numbers: how often each is referenced, which to reuse next.

Owns the reference counts and the order of reuse. Must not know sequences, tokens or hashes: who
references a page, and why an unreferenced one is worth keeping, is the caller's knowledge.
"""

from __future__ import annotations

from octavo.kv.eviction_order import EvictionOrder


class PagePool:
    """`num_pages` pages, numbered from 0. Every operation is O(1).

    A page is in one of three states: *used* (referenced at least once), *blank* (unreferenced, its
    content is worthless) or *evictable* (unreferenced, but somebody may want its content again).
    Blank and evictable pages are both free: `take` prefers a blank one, then the evictable page
    whose turn it is (`EvictionOrder`).
    """

    def __init__(self, num_pages: int, max_owner_share: float = 1.0) -> None:
        self.num_pages = num_pages
        self.num_references = 0
        self.num_evictions = 0
        self.ref_counts = [0] * num_pages
        """Of each page; others only read it."""
        self._blank = list(range(num_pages - 1, -1, -1))
        self._evictable = EvictionOrder(max_owner_share)

    @property
    def num_free(self) -> int:
        return len(self._blank) + len(self._evictable)

    @property
    def num_evictable(self) -> int:
        return len(self._evictable)

    @property
    def num_used(self) -> int:
        return self.num_pages - self.num_free

    def is_evictable(self, page: int) -> bool:
        return page in self._evictable

    def evictable_pages(self) -> list[int]:
        """In the order of their release. O(evictable pages)."""
        return list(self._evictable)

    def take(self, owner: str = "") -> int:
        """A free page, referenced once. Its old content is lost. There must be a free page."""
        if self._blank:
            page = self._blank.pop()
        else:
            page = self._evictable.pop(owner)
            self.num_evictions += 1
        self.ref_counts[page] = 1
        self.num_references += 1
        return page

    def share(self, page: int) -> None:
        """One more reference to a page that is used or evictable."""
        if self.ref_counts[page] == 0:
            self._evictable.remove(page)
        self.ref_counts[page] += 1
        self.num_references += 1

    def release(self, page: int, *, keep: bool, owner: str = "") -> None:
        """One reference less. Without any, the page is free: evictable if `keep`, else blank."""
        assert self.ref_counts[page] > 0, f"page {page} released without a reference"
        self.ref_counts[page] -= 1
        self.num_references -= 1
        if self.ref_counts[page] > 0:
            return
        if keep:
            self._evictable.add(page, owner)
        else:
            self._blank.append(page)

    def blank_evictable(self) -> None:
        """Nobody wants the content of unreferenced pages any more. O(evictable pages)."""
        self._blank.extend(self._evictable)
        self._evictable.clear()
