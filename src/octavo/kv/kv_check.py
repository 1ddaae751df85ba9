"""What must hold of pages, tables, names and pins at any time. For tests; changes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from octavo.core.sequence import Sequence
from octavo.kv.coming_pages import ComingPages
from octavo.kv.page_namer import PageNamer
from octavo.kv.page_pool import PagePool
from octavo.kv.pins import Pins
from octavo.kv.prefix_index import PrefixIndex


class KvState(NamedTuple):
    """The parts of a `KvManager`. `num_indexed` has all sequences with pages."""

    pool: PagePool
    prefixes: PrefixIndex
    coming: ComingPages
    pins: Pins
    namer: PageNamer
    num_indexed: Mapping[Sequence, int]


def check_kv_state(state: KvState, page_tokens: int) -> None:
    """Raise AssertionError unless it is sound. O(pages)."""
    holders = Counter(page for sequence in state.num_indexed for page in sequence.page_table)
    _check_pages(state, holders)
    _check_coming(state)
    for sequence in state.num_indexed:
        _check_table(state, sequence, page_tokens)


def _check_pages(state: KvState, holders: Counter[int]) -> None:
    pool = state.pool
    references = holders + Counter(state.pins.pages)
    for page in range(pool.num_pages):
        count = pool.ref_count(page)
        assert count == references[page], f"page {page}: {count} references, but who holds them?"
        evictable = pool.is_evictable(page)
        assert not (evictable and count), f"page {page} is used and evictable"
        assert not evictable or state.prefixes.holds(page), f"page {page} is kept without a name"
        named = state.prefixes.holds(page)
        assert not named or count or evictable, f"page {page} has a name but no content"
    assert pool.num_used == len(references), "used pages are not those that are held"
    assert pool.num_references == references.total(), "references are miscounted"
    assert all(map(state.prefixes.holds, state.pins.pages)), "a page is pinned without a name"
    assert state.pins.num_pages <= state.pins.max_pages, "too many pages are pinned"


def _check_coming(state: KvState) -> None:
    for name, sequence in state.coming.items():
        coming = state.namer.names_from(sequence, state.num_indexed[sequence])
        assert name in coming, "nobody will compute a page"


def _check_table(state: KvState, sequence: Sequence, page_tokens: int) -> None:
    table = sequence.page_table
    assert len(set(table)) == len(table), "a table repeats a page"
    assert sequence.num_computed_tokens <= len(table) * page_tokens, "computed without a page"
    num_held = -(-sequence.num_computed_tokens // page_tokens)
    for page in table[num_held:]:
        assert state.pool.ref_count(page) == 1, f"page {page} is shared but empty"
        assert not state.prefixes.holds(page), f"page {page} is cached but empty"
