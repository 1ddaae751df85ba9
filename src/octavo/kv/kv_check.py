"""What must hold of pages, tables, names and pins at any time. For tests; changes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from octavo.core.page_groups import NO_PAGE, PageGroups
from octavo.core.sequence import Sequence
from octavo.kv.page_pool import PagePool
from octavo.kv.page_tables import num_settled
from octavo.kv.pins import Pins
from octavo.kv.prefix_cache import PrefixCache


class KvState(NamedTuple):
    """The parts of a `KvManager`. `num_committed` has all sequences with pages."""

    groups: PageGroups
    pool: PagePool
    cache: PrefixCache
    pins: Pins
    num_committed: Mapping[Sequence, int]


def check_kv_state(state: KvState) -> None:
    """Raise AssertionError unless it is sound. O(pages)."""
    tables = [sequence.page_table for sequence in state.num_committed]
    _check_pages(state, Counter(page for table in tables for page in table if page != NO_PAGE))
    _check_names(state)
    for sequence in state.num_committed:
        _check_table(state, sequence)
        for group in range(state.groups.num):
            _check_window(state, sequence, group)


def _check_pages(state: KvState, holders: Counter[int]) -> None:
    pool, index = state.pool, state.cache.index
    references = holders + Counter(state.pins.pages)
    for page in range(pool.num_pages):
        count = pool.ref_counts[page]
        assert count == references[page], f"page {page}: {count} references, but who holds them?"
        evictable = pool.is_evictable(page)
        assert not (evictable and count), f"page {page} is used and evictable"
        assert not evictable or index.holds(page), f"page {page} is kept without a name"
        named = index.holds(page)
        assert not named or count or evictable, f"page {page} has a name but no content"
    assert pool.num_used == len(references), "used pages are not those that are held"
    assert pool.num_references == references.total(), "references are miscounted"
    assert all(map(index.holds, state.pins.pages)), "a page is pinned without a name"
    assert state.pins.num_pages <= state.pins.max_pages, "too many pages are pinned"


def _check_names(state: KvState) -> None:
    for name, sequence in state.cache.coming.items():
        coming = state.cache.namer.names_from(sequence, state.num_committed[sequence])
        assert name in coming, "nobody will compute a page"
    named = [page for _, pages in state.cache.index.items() for page in pages if page != NO_PAGE]
    assert len(set(named)) == len(named), "a page has two names"


def _check_table(state: KvState, sequence: Sequence) -> None:
    table, groups = sequence.page_table, state.groups
    pages = [page for page in table if page != NO_PAGE]
    assert len(set(pages)) == len(pages) == sequence.num_pages, "a table repeats or miscounts pages"
    assert len(table) % groups.num == 0, "a table ends within a stripe"
    num_held = groups.num_stripes(sequence.num_computed_tokens)
    assert num_held <= len(table) // groups.num, "computed without a page"
    for page in table[num_held * groups.num :]:
        if page != NO_PAGE:
            assert state.pool.ref_counts[page] == 1, f"page {page} is shared but empty"
            assert not state.cache.index.holds(page), f"page {page} is cached but empty"


def _check_window(state: KvState, sequence: Sequence, group: int) -> None:
    """What can still be seen is held, what cannot is not, nor what no step can reach."""
    groups, num_computed = state.groups, sequence.num_computed_tokens
    pages = sequence.page_table[group :: groups.num]
    num_full = state.num_committed[sequence]
    settled = num_settled(sequence, num_full, groups)
    num_forked = sequence.num_prompt_tokens if sequence.params.use_beam_search else num_computed
    first_seen = groups.first_seen(group, min(num_computed, num_forked))
    first_kept = min(groups.first_kept(group, settled), groups.num_stripes(num_computed))
    num_held = groups.num_stripes(num_computed)
    stop = max(groups.stop(group, num_full, len(pages)), num_held)
    assert NO_PAGE not in pages[first_seen:num_held], "a page is missing that is seen"
    assert pages[:first_kept].count(NO_PAGE) == first_kept, "a page is held that nobody sees"
    assert pages[stop:].count(NO_PAGE) == len(pages) - stop, "a page is held too early"
