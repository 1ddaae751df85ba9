"""In which order cached pages that nobody uses give way: the longest unused first, within bounds.

Owns that order and who left which page. Must not know reference counts or contents.

Least recently used alone would let one owner's flood of new text evict everybody's cache. So an
owner that already holds more than its share of the cached pages pays for a new page with its own
longest unused one; only who holds less takes the longest unused of all.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator


class EvictionOrder:
    """`max_owner_share` is a share of the pages that are here, above 0 and at most 1. O(1)."""

    def __init__(self, max_owner_share: float) -> None:
        assert 0 < max_owner_share <= 1, "an owner's share is above 0 and at most 1"
        self._max_owner_share = max_owner_share
        self._owners: OrderedDict[int, str] = OrderedDict()
        self._pages: dict[str, OrderedDict[int, None]] = {}

    def __len__(self) -> int:
        return len(self._owners)

    def __contains__(self, page: int) -> bool:
        return page in self._owners

    def __iter__(self) -> Iterator[int]:
        return iter(self._owners)

    def add(self, page: int, owner: str) -> None:
        """`owner` has just stopped to use `page`, which is not here."""
        self._owners[page] = owner
        self._pages.setdefault(owner, OrderedDict())[page] = None

    def remove(self, page: int) -> None:
        """Somebody uses `page` again. It must be here."""
        owner = self._owners.pop(page)
        pages = self._pages[owner]
        del pages[page]
        if not pages:
            del self._pages[owner]

    def pop(self, taker: str) -> int:
        """The page that gives way to a new one of `taker`. There must be a page."""
        own = self._pages.get(taker, ())
        exceeds = len(own) > self._max_owner_share * len(self._owners)
        page = next(iter(own if exceeds else self._owners))
        self.remove(page)
        return page

    def clear(self) -> None:
        self._owners.clear()
        self._pages.clear()
