"""Figures of the page memory, for metrics and reports. Knows pages and tables, changes neither."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from octavo.core.sequence import Sequence
from octavo.kv.page_pool import PagePool


@dataclass(frozen=True, slots=True)
class KvStats:
    """Pages now, and totals since the start.

    used + cached + blank pages are all pages; `num_cached_pages` only the prefix cache holds, so
    they count as free. Prefix queries and hits are prompt tokens that were asked of and served by
    the cache. `num_saved_pages`: so many pages more would be used if nobody shared one.
    """

    num_pages: int
    num_used_pages: int
    num_cached_pages: int
    prefix_queries: int
    prefix_hits: int
    num_saved_pages: int
    num_pinned_pages: int
    num_swap_slots: int
    num_swapped_pages: int
    num_swapped_sequences: int
    num_copies: int
    num_swap_outs: int
    num_swap_ins: int
    num_evictions: int


def num_wasted_slots(sequences: Iterable[Sequence], pool: PagePool, page_tokens: int) -> int:
    """O(sequences): only the end of a page table can hold slots that no token is meant for.

    Forks may share their last page, which then wastes what it does in the fullest of them; it
    wastes nothing if somebody holds it who has gone beyond it.
    """
    unfilled: dict[int, int] = {}
    num_ends: dict[int, int] = {}
    for sequence in sequences:
        table = sequence.page_table
        if table:
            slots = max(0, len(table) * page_tokens - sequence.num_tokens)
            unfilled[table[-1]] = min(slots, unfilled.get(table[-1], slots))
            num_ends[table[-1]] = num_ends.get(table[-1], 0) + 1
    return sum(slots for page, slots in unfilled.items() if pool.ref_count(page) == num_ends[page])
