"""Page tables cover what was asked, share what is equal, and leave nothing behind."""

from __future__ import annotations

import pytest

from octavo.core.schedule import MoveKind, PageMove
from octavo.core.sequence import Sequence
from octavo.kv.kv_manager import KvManager
from octavo.kv.prefix_index import PageName, PrefixIndex
from tests.fakes import make_sequence

PAGE = 4


def admit(kv: KvManager, sequence: Sequence, reserved: int = 0) -> bool:
    return kv.allocate(sequence, num_reserved_pages=reserved, use_prefix=True)


def compute_all(kv: KvManager, sequence: Sequence) -> None:
    sequence.num_computed_tokens = sequence.num_tokens
    kv.commit(sequence)


def cached(kv: KvManager, prompt: list[int], tenant: str = "") -> None:
    """Leave the full pages of `prompt` in the prefix cache, held by nobody."""
    sequence = make_sequence(prompt, tenant=tenant)
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


def forked(kv: KvManager, parent: Sequence, num_tokens: int, *more: int) -> Sequence:
    child = make_sequence([*parent.token_ids[:num_tokens], *more])
    kv.fork(parent, child, num_tokens)
    return child


def test_a_fork_shares_every_page_and_a_write_copies_the_partial_one() -> None:
    kv = KvManager(8, PAGE)
    parent = make_sequence([1, 2, 3, 4, 5, 6])
    assert admit(kv, parent)
    compute_all(kv, parent)
    child = forked(kv, parent, 6, 7)
    first, partial = parent.page_table
    assert child.page_table == [first, partial]
    assert child.num_computed_tokens == 6
    assert kv.stats().num_saved_pages == 2
    assert kv.num_pages_to_grow(child, 7) == 1
    assert kv.grow(child, 7)
    (own,) = set(child.page_table) - {first}
    assert kv.take_moves() == [PageMove(MoveKind.COPY, partial, own)]
    assert kv.grow(parent, 7)  # now alone with its page
    assert parent.page_table == [first, partial]
    assert kv.take_moves() == []
    kv.check_invariants()


def test_growth_that_cannot_copy_changes_nothing() -> None:
    kv = KvManager(2, PAGE)
    parent = make_sequence([1, 2, 3, 4, 5, 6])
    assert admit(kv, parent)
    compute_all(kv, parent)
    child = forked(kv, parent, 6, 7)
    assert not kv.grow(child, 7)
    assert child.page_table == parent.page_table
    assert kv.take_moves() == []
    kv.free(parent)
    assert kv.grow(child, 7)
    kv.check_invariants()


def test_a_fork_within_a_full_page_leaves_the_cached_page_alone() -> None:
    kv = KvManager(3, PAGE)
    parent = make_sequence([1, 2, 3, 4, 5, 6, 7, 8])
    assert admit(kv, parent)
    compute_all(kv, parent)
    child = forked(kv, parent, 6, 9)
    assert kv.num_pages_to_grow(child, 7) == 1
    kv.free(parent)
    assert len(kv.find_prefix(make_sequence([1, 2, 3, 4, 5, 6, 7, 8, 0]))) == 2
    assert kv.grow(child, 7)  # in place: nobody else holds the page, but it is cached no more
    assert kv.take_moves() == []
    assert len(kv.find_prefix(make_sequence([1, 2, 3, 4, 5, 6, 7, 8, 0]))) == 1
    kv.check_invariants()


def test_a_fork_is_cached_under_its_own_tokens_where_it_leaves_the_parents_text() -> None:
    kv = KvManager(3, PAGE)
    parent = make_sequence([1, 2, 3, 4, 5, 6, 7, 8])
    assert admit(kv, parent)
    compute_all(kv, parent)
    child = forked(kv, parent, 6, 9, 9)
    kv.free(parent)
    assert kv.grow(child, 8)
    compute_all(kv, child)
    assert len(kv.find_prefix(make_sequence([1, 2, 3, 4, 5, 6, 7, 8, 0]))) == 1
    assert kv.find_prefix(make_sequence([1, 2, 3, 4, 5, 6, 9, 9, 0])) == child.page_table


def test_a_forks_own_pages_are_cached_when_they_are_full() -> None:
    kv = KvManager(8, PAGE)
    parent = make_sequence([1, 2, 3, 4, 5, 6])
    assert admit(kv, parent)
    compute_all(kv, parent)
    child = forked(kv, parent, 6, 7, 8)
    assert kv.grow(child, 8)
    compute_all(kv, child)
    assert kv.find_prefix(make_sequence([1, 2, 3, 4, 5, 6, 7, 8, 9])) == child.page_table


def test_private_pages_are_those_that_would_be_free() -> None:
    kv = KvManager(8, PAGE)
    parent = make_sequence([1, 2, 3, 4, 5, 6])
    assert admit(kv, parent)
    compute_all(kv, parent)
    assert kv.num_private_pages(parent) == 2
    child = forked(kv, parent, 6, 7)
    assert kv.num_private_pages(parent) == 0
    assert kv.grow(child, 7)
    assert kv.num_private_pages(parent) == kv.num_private_pages(child) == 1


def test_swapping_keeps_what_is_computed_and_gives_the_pages_to_others_at_once() -> None:
    kv = KvManager(2, PAGE, enable_prefix_caching=False, num_swap_slots=2)
    first, second = make_sequence([1, 2, 3, 4, 5]), make_sequence([6, 7, 8, 9, 10])
    assert admit(kv, first)
    first.num_computed_tokens = 4
    (computed, _) = first.page_table
    assert kv.swap_out(first)
    assert kv.is_swapped(first)
    assert (first.page_table, first.num_computed_tokens) == ([], 4)
    (move,) = kv.take_moves()
    assert move[:2] == (MoveKind.SWAP_OUT, computed)
    assert admit(kv, second)
    assert not kv.swap_in(first, num_reserved_pages=0)
    assert kv.is_swapped(first)
    kv.free(second)
    assert kv.swap_in(first, num_reserved_pages=0)
    assert kv.take_moves() == [PageMove(MoveKind.SWAP_IN, move.target, first.page_table[0])]
    assert not kv.is_swapped(first)
    assert kv.stats().num_swapped_pages == 0


def test_pages_that_are_still_cached_need_not_come_back() -> None:
    kv = KvManager(4, PAGE, num_swap_slots=4)
    sequence = make_sequence([1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
    assert admit(kv, sequence)
    compute_all(kv, sequence)
    first = sequence.page_table[0]
    assert kv.swap_out(sequence)
    assert len(kv.take_moves()) == 3
    cached(kv, [99] * 9)  # takes three pages, and so evicts the second
    assert kv.swap_in(sequence, num_reserved_pages=0)
    assert sequence.page_table[0] == first
    assert [move.kind for move in kv.take_moves()] == [MoveKind.SWAP_IN] * 2
    kv.check_invariants()


def test_without_slots_nothing_is_swapped() -> None:
    for num_slots in (0, 1):
        kv = KvManager(4, PAGE, num_swap_slots=num_slots)
        sequence = make_sequence([1, 2, 3, 4, 5])
        assert admit(kv, sequence)
        sequence.num_computed_tokens = 5
        assert not kv.swap_out(sequence)
        assert len(sequence.page_table) == 2
        assert kv.take_moves() == []


def test_who_leaves_while_swapped_leaves_no_slot_behind() -> None:
    kv = KvManager(4, PAGE, num_swap_slots=2)
    sequence = make_sequence([1, 2, 3, 4, 5])
    assert admit(kv, sequence)
    compute_all(kv, sequence)
    assert kv.swap_out(sequence)
    assert kv.stats().num_swapped_pages == 2
    kv.free(sequence)
    assert kv.stats().num_swapped_pages == sequence.num_computed_tokens == 0
    kv.check_invariants()


def test_pinned_pages_outlive_a_flood_and_are_bounded() -> None:
    kv = KvManager(4, PAGE, max_pinned_pages=1)
    cached(kv, [1, 2, 3, 4, 5])
    cached(kv, [6, 7, 8, 9, 10])
    assert kv.num_pages == 3
    assert kv.pin("system prompt", make_sequence([1, 2, 3, 4, 5]))
    assert not kv.pin("another", make_sequence([6, 7, 8, 9, 10]))
    cached(kv, list(range(20, 32)))
    assert len(kv.find_prefix(make_sequence([1, 2, 3, 4, 5]))) == 1
    assert kv.find_prefix(make_sequence([6, 7, 8, 9, 10])) == []
    kv.unpin("system prompt")
    cached(kv, list(range(40, 56)))
    assert kv.find_prefix(make_sequence([1, 2, 3, 4, 5])) == []
    kv.check_invariants()


def test_waste_is_what_no_token_is_meant_for_once_per_page() -> None:
    kv = KvManager(8, PAGE)
    parent = make_sequence([1, 2, 3, 4, 5])
    assert admit(kv, parent)
    assert kv.num_wasted_slots() == 3
    compute_all(kv, parent)
    forked(kv, parent, 5, 6)
    assert kv.num_wasted_slots() == 2
    forked(kv, parent, 3, 6)  # ends in a page that others have filled
    assert kv.num_wasted_slots() == 2
    kv.free(parent)
    assert kv.num_wasted_slots() == 2


def test_one_tenants_flood_does_not_evict_anothers_cache() -> None:
    def run(max_tenant_share: float) -> int:
        kv = KvManager(8, PAGE, max_tenant_share=max_tenant_share)
        cached(kv, list(range(17)), tenant="quiet")
        for start in range(100, 1000, 10):
            cached(kv, list(range(start, start + 5)), tenant="flood")
        return len(kv.find_prefix(make_sequence(list(range(17)))))

    assert run(1.0) == 0
    assert run(0.5) >= 3


def test_a_search_is_made_once_until_the_index_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    kv = KvManager(8, PAGE)
    cached(kv, [1, 2, 3, 4, 5])
    running, waiting = make_sequence([7] * 5), make_sequence([1, 2, 3, 4, 6])
    assert admit(kv, running)
    looked_up: list[PageName] = []
    find = PrefixIndex.find

    def counted(index: PrefixIndex, name: PageName) -> list[int] | None:
        looked_up.append(name)
        return find(index, name)

    monkeypatch.setattr(PrefixIndex, "find", counted)
    assert not kv.is_prefix_coming(waiting)
    assert admit(kv, waiting)
    assert len(looked_up) == 1
    compute_all(kv, running)
    kv.find_prefix(waiting)
    assert len(looked_up) == 2
