"""Figures of the page memory, for metrics and reports. Knows pages and tables, changes neither."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from octavo.core.page_groups import NO_PAGE, PageGroups
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


def num_wasted_slots(sequences: Iterable[Sequence], pool: PagePool, groups: PageGroups) -> int:
    """O(sequences): only the end of a page table can hold slots that no token is meant for.

    Forks may share their last pages, which then waste what they do in the fullest of them; they
    waste nothing if somebody holds them who has gone beyond them. Tokens before a window are meant
    for their slots, too.
    """
    unfilled: dict[int, int] = {}
    num_ends: dict[int, int] = {}
    for sequence in sequences:
        table = sequence.page_table
        num_slots = len(table) // groups.num * groups.page_tokens
        slots = max(0, num_slots - sequence.num_tokens)
        for page in table[-groups.num :]:
            unfilled[page] = min(slots, unfilled.get(page, slots))
            num_ends[page] = num_ends.get(page, 0) + 1
    unfilled.pop(NO_PAGE, None)
    return sum(slots for page, slots in unfilled.items() if pool.ref_counts[page] == num_ends[page])
