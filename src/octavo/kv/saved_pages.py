"""Cached prefixes as plain records that outlive a process: which to save, and how to take them in.

A record names its page by its tokens and by the record of the page before it, since digests are
worth nothing in another process. Must not know files nor what a page holds.
"""

from __future__ import annotations

from collections.abc import Container
from typing import NamedTuple

from octavo.core.page_groups import NO_PAGE
from octavo.kv.page_pool import PagePool
from octavo.kv.prefix_index import PageName, PrefixIndex

NO_PARENT = -1


class SavedPage(NamedTuple):
    """`parent` is the position in the same list of group 0's page of the tokens before it, and
    smaller than its own; `NO_PARENT` if it begins the text. `group`: of which layers."""

    parent: int
    group: int
    scope: bytes
    token_ids: tuple[int, ...]


def pages_to_save(
    index: PrefixIndex, pool: PagePool, max_pages: int
) -> list[tuple[int, SavedPage]]:
    """Cached pages and their records, at most `max_pages`: those used now, then the last used.

    A page without those of group 0 up to its end could not be found again, so that it comes with
    all of them or not at all. O(cached pages).
    """
    chains = _Chains(index)
    names = {page: name for name, pages in index.items() for page in pages if page != NO_PAGE}
    used = [page for page in names if not pool.is_evictable(page)]
    saved: list[tuple[int, SavedPage]] = []
    positions: dict[bytes, int] = {}
    for page in [*used, *reversed(pool.evictable_pages())]:
        name = names[page]
        chain = chains.up_to(name, positions)
        if name.digest not in positions and not chain:
            continue
        group = chains.group_of(name, page)
        if len(saved) + len(chain) + (group > 0) > max_pages:
            continue
        for one, held in chain:
            parent = positions.get(one.parent, NO_PARENT)
            positions[one.digest] = len(saved)
            saved.append((held, SavedPage(parent, 0, one.scope, one.token_ids)))
        if group > 0:
            parent = positions.get(name.parent, NO_PARENT)
            saved.append((page, SavedPage(parent, group, name.scope, name.token_ids)))
    return saved


def take_in(
    index: PrefixIndex, pool: PagePool, records: list[SavedPage], num_groups: int
) -> list[int]:
    """Blank pages for the first records, as many as there are; their content is still to be written
    by the caller. They are cached and evictable, the last record to be evicted first."""
    num_blank = pool.num_free - pool.num_evictable
    names: list[PageName] = []
    for parent, _, scope, token_ids in records[:num_blank]:
        previous = None if parent == NO_PARENT else names[parent]
        names.append(index.name(previous, scope, token_ids))
    pages = [pool.take() for _ in names]
    for name, page, record in reversed(list(zip(names, pages, records, strict=False))):
        held = [NO_PAGE] * num_groups
        held[record.group] = page
        index.insert(name, held)
        pool.release(page, keep=index.holds(page))
    return pages


class _Chains:
    """Texts by the pages of group 0, which is of full attention if any group is."""

    def __init__(self, index: PrefixIndex) -> None:
        self._index = index
        self._named = {name.digest: (name, pages) for name, pages in index.items()}

    def group_of(self, name: PageName, page: int) -> int:
        return self._named[name.digest][1].index(page)

    def up_to(self, name: PageName, known: Container[bytes]) -> list[tuple[PageName, int]]:
        """The pages of a text from the first that is not `known` to `name`; none at all if one of
        them is not cached."""
        chain: list[tuple[PageName, int]] = []
        digest = name.digest
        while digest not in known:
            one, pages = self._named.get(digest, (None, [NO_PAGE]))
            if one is None:
                return chain[::-1] if chain and self._index.begins_text(chain[-1][0]) else []
            if pages[0] == NO_PAGE:
                return []
            chain.append((one, pages[0]))
            digest = one.parent
        return chain[::-1]
