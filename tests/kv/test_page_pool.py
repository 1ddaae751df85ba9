"""Pages are counted exactly, and reused in the right order."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from octavo.kv.page_pool import PagePool


def test_a_new_pool_is_free_and_gives_each_page_once() -> None:
    pool = PagePool(4)
    assert pool.num_free == 4
    assert sorted(pool.take() for _ in range(4)) == [0, 1, 2, 3]
    assert (pool.num_free, pool.num_used) == (0, 4)


def test_a_shared_page_is_free_only_after_its_last_release() -> None:
    pool = PagePool(1)
    page = pool.take()
    pool.share(page)
    pool.release(page, keep=False)
    assert pool.num_used == 1
    pool.release(page, keep=False)
    assert pool.num_free == 1


def test_a_blank_page_is_taken_before_an_evictable_one() -> None:
    pool = PagePool(3)
    kept, dropped = pool.take(), pool.take()
    pool.release(kept, keep=True)
    pool.release(dropped, keep=False)
    assert pool.take() != kept
    assert pool.take() != kept
    assert pool.take() == kept


def test_evictable_pages_are_taken_in_the_order_of_their_release() -> None:
    pool = PagePool(3)
    pages = [pool.take() for _ in range(3)]
    order = [pages[1], pages[2], pages[0]]
    for page in order:
        pool.release(page, keep=True)
    assert [pool.take() for _ in range(3)] == order


def test_sharing_an_evictable_page_revives_it_and_makes_it_the_newest() -> None:
    pool = PagePool(2)
    first, second = pool.take(), pool.take()
    pool.release(first, keep=True)
    pool.release(second, keep=True)
    pool.share(first)
    assert not pool.is_evictable(first)
    pool.release(first, keep=True)
    assert [pool.take(), pool.take()] == [second, first]


def test_releasing_an_unreferenced_page_is_our_own_mistake_and_raises() -> None:
    with pytest.raises(AssertionError, match="without a reference"):
        PagePool(1).release(0, keep=False)


class PagePoolMachine(RuleBasedStateMachine):
    """The pool against the most obvious model: a count per page, and a list in order of release."""

    @initialize(num_pages=st.integers(1, 6))
    def make(self, num_pages: int) -> None:
        self.pool = PagePool(num_pages)
        self.counts = [0] * num_pages
        self.kept: list[int] = []

    @precondition(lambda self: self.pool.num_free > 0)
    @rule()
    def take(self) -> None:
        has_blank = self.pool.num_free > self.pool.num_evictable
        page = self.pool.take()
        assert self.counts[page] == 0
        assert has_blank != (page in self.kept)
        if not has_blank:
            assert self.kept.pop(0) == page
        self.counts[page] = 1

    @rule(data=st.data())
    def share(self, data: st.DataObject) -> None:
        known = [page for page, count in enumerate(self.counts) if count or page in self.kept]
        if known:
            page = data.draw(st.sampled_from(known))
            self.pool.share(page)
            self.counts[page] += 1
            if page in self.kept:
                self.kept.remove(page)

    @rule(data=st.data(), keep=st.booleans())
    def release(self, data: st.DataObject, keep: bool) -> None:
        used = [page for page, count in enumerate(self.counts) if count]
        if used:
            page = data.draw(st.sampled_from(used))
            self.pool.release(page, keep=keep)
            self.counts[page] -= 1
            if keep and not self.counts[page]:
                self.kept.append(page)

    @rule()
    def blank(self) -> None:
        self.pool.blank_evictable()
        self.kept.clear()

    @invariant()
    def counts_agree(self) -> None:
        pages = range(self.pool.num_pages)
        assert [self.pool.ref_counts[page] for page in pages] == self.counts
        assert [page for page in pages if self.pool.is_evictable(page)] == sorted(self.kept)
        assert self.pool.num_used == sum(count > 0 for count in self.counts)
        assert self.pool.num_free + self.pool.num_used == self.pool.num_pages


TestPagePoolMachine = PagePoolMachine.TestCase
TestPagePoolMachine.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
