"""Pages in any order of events: every sequence reads back exactly its own tokens, always.

The long run: `pytest --hypothesis-profile=octavo-long tests/kv/test_kv_properties.py`.
"""

from __future__ import annotations

import random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from octavo.core.sequence import Sequence
from octavo.kv.kv_manager import KvManager
from tests.fake_memory import FakeMemory
from tests.fakes import make_sequence

PAGE = 2
MAX_SEQUENCES = 8
MAX_TOKENS = 24
Mark = tuple[int, int]
"""What a slot holds: (token id, position)."""


class KvManagerMachine(RuleBasedStateMachine):
    """Sequences over two letters, so that prefixes are often equal, in a pool that is often full.

    Slots are marked when a step computes them, after the step's moves: a page that was not copied,
    or that was given away too early, shows up as somebody's wrong token. `pick` chooses a sequence
    among those that there are.
    """

    @initialize(seed=st.integers(0, 2**32))
    def make(self, seed: int) -> None:
        rng = random.Random(seed)
        num_pages = self.num_pages = rng.randint(1, 12)
        self.kv = KvManager(
            num_pages,
            PAGE,
            enable_prefix_caching=rng.random() < 0.8,
            num_swap_slots=rng.choice([0, 3, 12]),
            max_pinned_pages=rng.randint(0, num_pages // 2),
            max_tenant_share=rng.choice([0.3, 1.0]),
        )
        self.memory: FakeMemory[Mark] = FakeMemory(num_pages, PAGE, (-1, -1))
        self.live: list[Sequence] = []

    @rule(seed=st.integers(0, 2**32))
    def arrive(self, seed: int) -> None:
        if len(self.live) < MAX_SEQUENCES:
            rng = random.Random(seed)
            prompt = [rng.randint(0, 1) for _ in range(rng.randint(1, 9))]
            salt = rng.choice(["", "", "", "other"])
            self.live.append(make_sequence(prompt, tenant=salt, cache_salt=salt))

    @rule(pick=st.integers(0, 255), num_reserved=st.integers(0, 2))
    def admit(self, pick: int, num_reserved: int) -> None:
        waiting = [one for one in self.live if not one.page_table]
        if not waiting:
            return
        sequence = waiting[pick % len(waiting)]
        before = self.state_of(sequence)
        if self.kv.is_swapped(sequence):
            admitted = self.kv.swap_in(sequence, num_reserved_pages=num_reserved)
            assert sequence.num_computed_tokens == before[1]
        else:
            admitted = self.kv.allocate(
                sequence, num_reserved_pages=num_reserved, use_prefix=pick % 8 > 0
            )
            assert sequence.num_computed_tokens < sequence.num_tokens
        if admitted:
            assert len(sequence.page_table) == -(-sequence.num_tokens // PAGE)
            assert self.kv.num_free_pages >= num_reserved
        else:
            assert self.state_of(sequence) == before

    @rule(seed=st.integers(0, 2**32))
    def step(self, seed: int) -> None:
        """Grow some, lose some of those again, move, compute the rest."""
        rng = random.Random(seed)
        planned: list[tuple[Sequence, int]] = []
        for sequence in self.holders():
            if rng.random() < 0.7 and (end := self.grow(sequence, rng)):
                planned.append((sequence, end))
        if planned and rng.random() < 0.2:
            self.preempt(planned.pop(rng.randrange(len(planned)))[0], swap=rng.random() < 0.5)
        self.memory.do(self.kv.take_moves())
        for sequence, end in planned:
            for position in range(sequence.num_computed_tokens, end):
                slot = self.memory.slot(sequence.page_table, position)
                self.memory.slots[slot] = (sequence.token_ids[position], position)
        for sequence, end in planned:
            sequence.num_computed_tokens = end
            self.kv.commit(sequence)
            if end == sequence.num_tokens < MAX_TOKENS:
                sequence.token_ids.append(rng.randint(0, 1))

    def grow(self, sequence: Sequence, rng: random.Random) -> int:
        """How far it will be computed; 0 if pages lack."""
        before = self.state_of(sequence)
        num_wanted = self.kv.num_pages_to_grow(sequence, sequence.num_tokens)
        if not self.kv.grow(sequence, sequence.num_tokens):
            assert self.state_of(sequence) == before
            assert num_wanted > self.kv.num_free_pages
            return 0
        assert self.kv.num_free_pages == before[0] - num_wanted
        return rng.randint(sequence.num_computed_tokens, sequence.num_tokens)

    @rule(pick=st.integers(0, 255), back=st.integers(0, 3), token_id=st.integers(0, 1))
    def fork(self, pick: int, back: int, token_id: int) -> None:
        parents = [one for one in self.holders() if one.num_computed_tokens > back]
        if not parents or len(self.live) >= MAX_SEQUENCES:
            return
        parent = parents[pick % len(parents)]
        num_tokens = parent.num_computed_tokens - back
        salt = parent.request.cache_salt
        prompt = [*parent.token_ids[:num_tokens], token_id]
        child = make_sequence(prompt, tenant=salt, cache_salt=salt)
        num_free = self.kv.num_free_pages
        self.kv.fork(parent, child, num_tokens)
        assert self.kv.num_free_pages == num_free
        self.live.append(child)

    @rule(pick=st.integers(0, 255), swap=st.booleans())
    def lose_pages(self, pick: int, swap: bool) -> None:
        holders = self.holders()
        if holders:
            self.preempt(holders[pick % len(holders)], swap)

    def preempt(self, sequence: Sequence, swap: bool) -> None:
        before = self.state_of(sequence)
        num_private = self.kv.num_private_pages(sequence)
        if swap and not self.kv.swap_out(sequence):
            assert self.state_of(sequence) == before
            return
        if swap:
            assert sequence.num_computed_tokens == before[1]
        else:
            self.kv.free(sequence)
        assert self.kv.num_free_pages == before[0] + num_private

    @rule(pick=st.integers(0, 255))
    def leave(self, pick: int) -> None:
        if self.live:
            sequence = self.live.pop(pick % len(self.live))
            self.kv.free(sequence)
            assert not sequence.page_table
            assert not self.kv.is_swapped(sequence)

    @rule(pick=st.integers(0, 255))
    def pin_or_unpin(self, pick: int) -> None:
        key = f"pin {pick % 2}"
        self.kv.unpin(key)
        if self.live and pick % 4 > 0:
            self.kv.pin(key, self.live[pick % len(self.live)])

    @rule(pick=st.integers(0, 255))
    def restart(self, pick: int) -> None:
        """Another process takes in what was saved, into a pool that may be smaller."""
        saved = self.kv.pages_to_save(pick % 8)
        assert len(saved) <= pick % 8
        contents = [self.memory.page(page) for page, _ in saved]
        other = KvManager(1 + pick // 16, PAGE)
        pages = other.take_in([record for _, record in saved])
        assert len(pages) == min(len(saved), 1 + pick // 16) == other.stats().num_cached_pages
        other.check_invariants()
        for sequence in self.live:
            marks = [contents[pages.index(page)] for page in other.find_prefix(sequence)]
            flat = [mark for content in marks for mark in content]
            assert flat == [(sequence.token_ids[at], at) for at in range(len(flat))]

    @rule()
    def reset(self) -> None:
        self.kv.reset_prefix_cache()
        assert self.kv.stats().num_cached_pages == 0

    @invariant()
    def everyone_reads_back_their_own_tokens(self) -> None:
        self.memory.do(self.kv.take_moves())
        for sequence in self.holders():
            end = sequence.num_computed_tokens
            expected = list(zip(sequence.token_ids[:end], range(end), strict=True))
            assert self.memory.read(sequence.page_table, end) == expected

    @invariant()
    def cached_pages_hold_the_tokens_of_their_names(self) -> None:
        saved = self.kv.pages_to_save(self.num_pages)
        texts: list[list[int]] = []
        for page, record in saved:
            before = [] if record.parent < 0 else texts[record.parent]
            texts.append([*before, *record.token_ids])
            expected = list(enumerate(record.token_ids, start=len(before)))
            assert self.memory.page(page) == [(token_id, at) for at, token_id in expected]

    @invariant()
    def pages_are_counted_exactly(self) -> None:
        self.kv.check_invariants()

    def holders(self) -> list[Sequence]:
        return [one for one in self.live if one.page_table]

    def state_of(self, sequence: Sequence) -> tuple[int, int, list[int]]:
        return self.kv.num_free_pages, sequence.num_computed_tokens, sequence.page_table.copy()

    def teardown(self) -> None:
        for sequence in getattr(self, "live", []):
            self.kv.free(sequence)
        if hasattr(self, "kv"):
            self.kv.reset_prefix_cache()
            stats = self.kv.stats()
            assert (stats.num_used_pages, stats.num_swapped_pages) == (0, 0)
            assert self.kv.num_wasted_slots() == 0


TestKvManagerMachine = KvManagerMachine.TestCase
TestKvManagerMachine.settings = settings(
    settings(),
    max_examples=1000 if settings().max_examples <= 100 else settings().max_examples,
    stateful_step_count=50,
)
