"""Cached prefixes as plain records that outlive a process: which to save, and how to take them in.

A record names its page by its tokens and by the record of the page before it, since digests are
worth nothing in another process. Must not know files nor what a page holds.
"""

from __future__ import annotations

from collections.abc import Container
from typing import NamedTuple

from octavo.kv.page_pool import PagePool
from octavo.kv.prefix_index import PageName, PrefixIndex

NO_PARENT = -1


class SavedPage(NamedTuple):
    """`parent` is the position of the page before it in the same list, and smaller than its own;
    `NO_PARENT` if it begins the text."""

    parent: int
    scope: bytes
    token_ids: tuple[int, ...]


def pages_to_save(
    index: PrefixIndex, pool: PagePool, max_pages: int
) -> list[tuple[int, SavedPage]]:
    """Cached pages and their records, at most `max_pages`: those used now, then the last used.

    A page without those before it could not be found again, so that it comes with all of them or
    not at all. O(cached pages).
    """
    chains = _Chains(index)
    pages = {page: name for name, page in index.items()}
    used = [page for page in pages if not pool.is_evictable(page)]
    saved: list[tuple[int, SavedPage]] = []
    positions: dict[bytes, int] = {}
    for page in [*used, *reversed(pool.evictable_pages())]:
        chain = chains.up_to(pages[page], positions)
        if len(saved) + len(chain) > max_pages:
            continue
        for name, held in chain:
            parent = positions.get(name.parent, NO_PARENT)
            positions[name.digest] = len(saved)
            saved.append((held, SavedPage(parent, name.scope, name.token_ids)))
    return saved


def take_in(index: PrefixIndex, pool: PagePool, records: list[SavedPage]) -> list[int]:
    """Blank pages for the first records, as many as there are; their content is still to be written
    by the caller. They are cached and evictable, the last record to be evicted first."""
    num_blank = pool.num_free - pool.num_evictable
    names: list[PageName] = []
    for parent, scope, token_ids in records[:num_blank]:
        previous = None if parent == NO_PARENT else names[parent]
        names.append(index.name(previous, scope, token_ids))
    pages = [pool.take() for _ in names]
    for name, page in zip(reversed(names), reversed(pages), strict=True):
        index.insert(name, page)
        pool.release(page, keep=index.holds(page))
    return pages


class _Chains:
    def __init__(self, index: PrefixIndex) -> None:
        self._index = index
        self._named = {name.digest: (name, page) for name, page in index.items()}

    def up_to(self, name: PageName, known: Container[bytes]) -> list[tuple[PageName, int]]:
        """The pages of a text from the first that is not `known` to `name`; none at all if the
        text's beginning is not cached."""
        chain: list[tuple[PageName, int]] = []
        digest = name.digest
        while digest not in known:
            if digest not in self._named:
                return chain[::-1] if chain and self._index.begins_text(chain[-1][0]) else []
            chain.append(self._named[digest])
            digest = chain[-1][0].parent
        return chain[::-1]
