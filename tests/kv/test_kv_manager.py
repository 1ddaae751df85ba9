"""Page tables cover what was asked, share what is equal, and leave nothing behind."""

from __future__ import annotations

import pytest

from octavo.core.sequence import Sequence
from octavo.kv.kv_manager import KvManager
from tests.fakes import make_sequence

PAGE = 4


def admit(kv: KvManager, sequence: Sequence, reserved: int = 0) -> bool:
    return kv.allocate(sequence, num_reserved_pages=reserved, use_prefix=True)


def compute_all(kv: KvManager, sequence: Sequence) -> None:
    sequence.num_computed_tokens = sequence.num_tokens
    kv.commit(sequence)


def cached(kv: KvManager, prompt: list[int]) -> None:
    """Leave the full pages of `prompt` in the prefix cache, held by nobody."""
    sequence = make_sequence(prompt)
    assert admit(kv, sequence)
    compute_all(kv, sequence)
    kv.free(sequence)


@pytest.mark.parametrize(("num_tokens", "num_pages"), [(1, 1), (4, 1), (5, 2), (8, 2), (9, 3)])
def test_allocation_takes_just_the_pages_that_the_tokens_need(
    num_tokens: int, num_pages: int
) -> None:
    kv = KvManager(8, PAGE)
    sequence = make_sequence(list(range(num_tokens)))
    assert admit(kv, sequence)
    assert len(sequence.page_table) == num_pages == kv.stats().num_used_pages


def test_allocation_is_all_or_nothing_and_keeps_the_reserve() -> None:
    kv = KvManager(4, PAGE)
    sequence = make_sequence(list(range(12)))
    assert not admit(kv, sequence, reserved=2)
    assert sequence.page_table == []
    assert kv.num_free_pages == 4
    assert admit(kv, sequence, reserved=1)
    kv.check_invariants()


def test_growth_is_all_or_nothing() -> None:
    kv = KvManager(3, PAGE)
    sequence = make_sequence([1, 2, 3, 4])
    assert admit(kv, sequence)
    assert not kv.grow(sequence, 4 * PAGE)
    assert len(sequence.page_table) == 1
    assert kv.grow(sequence, 3 * PAGE)
    assert len(sequence.page_table) == 3


def test_a_cached_prefix_is_shared_and_counts_as_computed() -> None:
    kv = KvManager(8, PAGE)
    first = make_sequence([1, 2, 3, 4, 5, 6, 7, 8, 9])
    assert admit(kv, first)
    compute_all(kv, first)
    second = make_sequence([1, 2, 3, 4, 5, 6, 7, 8, 10, 11])
    assert admit(kv, second)
    assert second.num_computed_tokens == 8
    assert second.page_table[:2] == first.page_table[:2]
    assert second.page_table[2] != first.page_table[2]
    kv.check_invariants()


@pytest.mark.parametrize("num_tokens", [4, 8])
def test_the_last_token_is_always_left_to_compute(num_tokens: int) -> None:
    kv = KvManager(8, PAGE)
    prompt = list(range(num_tokens))
    cached(kv, prompt)
    again = make_sequence(prompt)
    assert admit(kv, again)
    assert again.num_computed_tokens == num_tokens - PAGE


def test_pages_that_are_not_computed_yet_are_not_shared() -> None:
    kv = KvManager(8, PAGE)
    assert admit(kv, make_sequence([1, 2, 3, 4, 5]))
    second = make_sequence([1, 2, 3, 4, 5])
    assert admit(kv, second)
    assert second.num_computed_tokens == 0


def test_a_beginning_is_coming_from_its_allocation_until_it_is_computed_or_given_up() -> None:
    kv = KvManager(8, PAGE)
    first, second = make_sequence([1, 2, 3, 4, 5, 6, 7, 8, 9]), make_sequence([1, 2, 3, 4, 5])
    other = make_sequence([1, 2, 3, 4, 5], cache_salt="other tenant")
    short = make_sequence([1, 2, 3, 4])  # its last token has to be computed in any case
    assert not kv.is_prefix_coming(second)
    assert admit(kv, first)
    assert [kv.is_prefix_coming(one) for one in (second, other, short)] == [True, False, False]
    first.num_computed_tokens = 5
    kv.commit(first)
    assert not kv.is_prefix_coming(second)
    longer = make_sequence([1, 2, 3, 4, 5, 6, 7, 8, 10])
    assert kv.is_prefix_coming(longer)
    kv.free(first)
    assert not kv.is_prefix_coming(longer)
    kv.check_invariants()


def test_other_salts_find_nothing() -> None:
    kv = KvManager(8, PAGE)
    cached(kv, [1, 2, 3, 4, 5])
    other = make_sequence([1, 2, 3, 4, 5], cache_salt="other tenant")
    assert admit(kv, other)
    assert other.num_computed_tokens == 0


def test_without_the_cache_nothing_is_kept() -> None:
    kv = KvManager(8, PAGE, enable_prefix_caching=False)
    cached(kv, [1, 2, 3, 4, 5])
    assert kv.stats().num_cached_pages == 0
    assert kv.find_prefix(make_sequence([1, 2, 3, 4, 5])) == []


def test_cached_pages_count_as_free_and_give_way() -> None:
    kv = KvManager(2, PAGE)
    cached(kv, [1, 2, 3, 4, 5, 6, 7, 8])
    assert kv.stats().num_cached_pages == kv.num_free_pages == 2
    assert admit(kv, make_sequence([9] * 8))
    assert kv.stats().num_cached_pages == 0
    kv.check_invariants()


def test_the_end_of_a_cached_text_is_evicted_before_its_beginning() -> None:
    kv = KvManager(3, PAGE)
    prompt = list(range(12))
    cached(kv, prompt)
    assert admit(kv, make_sequence([99]))
    assert len(kv.find_prefix(make_sequence([*prompt, 1]))) == 2


def test_cached_pages_in_the_prefix_are_not_counted_on_for_growth() -> None:
    """A match that takes the last free pages leaves none to grow into; it must be refused whole."""
    kv = KvManager(2, PAGE)
    cached(kv, [1, 2, 3, 4, 5, 6, 7, 8])
    sequence = make_sequence([1, 2, 3, 4, 5, 6, 7, 8, 9])
    assert not admit(kv, sequence)
    assert sequence.page_table == []
    kv.check_invariants()


def test_free_is_idempotent() -> None:
    kv = KvManager(2, PAGE)
    sequence = make_sequence([1, 2, 3])
    assert admit(kv, sequence)
    kv.free(sequence)
    kv.free(sequence)
    assert kv.num_free_pages == 2
    kv.check_invariants()


def test_reset_forgets_prefixes_but_takes_no_page_from_who_runs() -> None:
    kv = KvManager(4, PAGE)
    running = make_sequence([1, 2, 3, 4, 5])
    assert admit(kv, running)
    compute_all(kv, running)
    cached(kv, [7, 7, 7, 7])
    kv.reset_prefix_cache()
    assert kv.stats().num_cached_pages == 0
    assert kv.stats().num_used_pages == 2
    assert kv.find_prefix(make_sequence([1, 2, 3, 4, 5])) == []
    kv.check_invariants()


def test_hits_and_queries_are_counted_in_tokens_and_only_when_admitted() -> None:
    kv = KvManager(3, PAGE)
    cached(kv, [1, 2, 3, 4, 5])
    assert not admit(kv, make_sequence(list(range(40))))
    assert admit(kv, make_sequence([1, 2, 3, 4, 6, 7]))
    stats = kv.stats()
    assert (stats.prefix_queries, stats.prefix_hits) == (5 + 6, 4)
