"""Pages in any order of events: every sequence reads back exactly its own tokens, always.

The long run: `pytest --hypothesis-profile=octavo-long tests/kv/test_kv_properties.py`.
"""

from __future__ import annotations

import random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from octavo.core.page_groups import NO_PAGE, PageGroups
from octavo.core.sampling_params import SamplingParams
from octavo.core.sequence import Sequence
from octavo.kv.kv_manager import KvManager
from tests.fake_memory import FakeMemory
from tests.fakes import make_sequence

PAGE = 2
MAX_SEQUENCES = 8
MAX_TOKENS = 24
EVENTS = (
    *("arrive", "arrive", "arrive", "admit", "admit", "admit", "step", "step", "step", "step"),
    *("fork", "fork", "lose_pages", "leave", "pin_or_unpin", "restart", "reset"),
)
Mark = tuple[int, int, int]
"""What a slot holds: (token id, position, group of layers)."""

WINDOWS = ((0,), (0,), (0, 3), (0, 8, 2), (0, 4, 4), (5,), (9, 1))


class KvManagerMachine(RuleBasedStateMachine):
    """Sequences over two letters, so that prefixes are often equal, in a pool that is often full.

    Slots are marked when a step computes them, after the step's moves: a page that was not copied,
    or that was given away too early, shows up as somebody's wrong token.

    There is one rule, because Hypothesis leaves some rules out of each run: without arrivals, or
    without steps, nothing at all would happen.
    """

    @rule(event=st.sampled_from(EVENTS), seed=st.integers(0, 2**32))
    def happen(self, event: str, seed: int) -> None:
        getattr(self, event)(random.Random(seed))

    @initialize(seed=st.integers(0, 2**32))
    def make(self, seed: int) -> None:
        rng = random.Random(seed)
        windows = rng.choice(WINDOWS)
        self.max_step_tokens = rng.choice([1, 4, 24])
        self.groups = PageGroups(windows, PAGE, self.max_step_tokens)
        num_pages = self.num_pages = rng.choice([1, 3, 6, 10, 16, 24]) * len(windows)
        self.kv = KvManager(
            num_pages,
            PAGE,
            enable_prefix_caching=rng.random() < 0.8,
            groups=self.groups,
            num_swap_slots=rng.choice([0, 3, 12, 24]),
            max_pinned_pages=rng.randint(0, num_pages // 2),
            max_tenant_share=rng.choice([0.3, 1.0]),
        )
        self.memory: FakeMemory[Mark] = FakeMemory(num_pages, PAGE, (-1, -1, -1), len(windows))
        self.live: list[Sequence] = []
        for _ in range(rng.randint(1, 4)):
            self.arrive(rng)
            self.admit(rng)

    def arrive(self, rng: random.Random) -> None:
        if len(self.live) < MAX_SEQUENCES:
            prompt = [rng.randint(0, 1) for _ in range(rng.randint(1, 9))]
            salt = rng.choice(["", "", "", "other"])
            beams = SamplingParams(use_beam_search=rng.random() < 0.2)
            self.live.append(make_sequence(prompt, beams, tenant=salt, cache_salt=salt))

    def admit(self, rng: random.Random) -> None:
        waiting = [one for one in self.live if not one.page_table]
        if not waiting:
            return
        sequence, num_reserved = rng.choice(waiting), rng.choice([0, 0, 0, 1, 2])
        before = self.state_of(sequence)
        if self.kv.is_swapped(sequence):
            admitted = self.kv.swap_in(sequence, num_reserved_pages=num_reserved)
            assert sequence.num_computed_tokens == before[1]
        else:
            admitted = self.kv.allocate(
                sequence, num_reserved_pages=num_reserved, use_prefix=rng.random() < 0.9
            )
            assert sequence.num_computed_tokens < sequence.num_tokens
        if admitted:
            num_stripes = -(-sequence.num_tokens // PAGE)
            assert len(sequence.page_table) == num_stripes * self.groups.num
            assert self.kv.num_free_pages >= num_reserved
        else:
            assert self.state_of(sequence) == before

    def step(self, rng: random.Random) -> None:
        """Grow some, lose one of those again, move, compute the rest."""
        planned: list[tuple[Sequence, int]] = []
        for sequence in self.holders():
            if rng.random() < 0.7 and (end := self.grow(sequence, rng)):
                planned.append((sequence, end))
        if planned and rng.random() < 0.2:
            self.preempt(planned.pop(rng.randrange(len(planned)))[0], swap=rng.random() < 0.5)
        self.memory.do(self.kv.take_moves())
        for sequence, end in planned:
            for position in range(sequence.num_computed_tokens, end):
                for group in range(self.groups.num):
                    slot = self.memory.slot(sequence.page_table, position, group)
                    self.memory.slots[slot] = (sequence.token_ids[position], position, group)
        for sequence, end in planned:
            sequence.num_computed_tokens = end
            self.kv.commit(sequence)
            if end == sequence.num_tokens < MAX_TOKENS:
                sequence.token_ids.append(rng.randint(0, 1))

    def grow(self, sequence: Sequence, rng: random.Random) -> int:
        """How far it will be computed; 0 if pages lack."""
        before = self.state_of(sequence)
        num_wanted = self.kv.num_pages_to_grow(sequence, sequence.num_tokens)
        assert self.kv.those_to_grow([sequence]) == [sequence] * bool(num_wanted)
        if not self.kv.grow(sequence, sequence.num_tokens):
            assert self.state_of(sequence) == before
            assert num_wanted > self.kv.num_free_pages
            return 0
        assert self.kv.num_free_pages == before[0] - num_wanted
        most = min(sequence.num_tokens, before[1] + self.max_step_tokens)
        return rng.choice([most, rng.randint(before[1], most)])

    def fork(self, rng: random.Random) -> None:
        back = rng.choice([0, 0, 1, 2, 3, 8])
        parents = [one for one in self.holders() if one.num_computed_tokens > back]
        if not parents or len(self.live) >= MAX_SEQUENCES:
            return
        parent = rng.choice(parents)
        num_tokens = parent.num_computed_tokens - back
        can_fork = self.kv.can_fork(parent, num_tokens)
        is_in_prompt = num_tokens < parent.num_prompt_tokens
        assert can_fork or (back > 0 and (is_in_prompt or not parent.params.use_beam_search))
        if not can_fork:
            return
        salt = parent.request.cache_salt
        prompt = [*parent.token_ids[:num_tokens], rng.randint(0, 1)]
        child = make_sequence(prompt, parent.params, tenant=salt, cache_salt=salt)
        num_free = self.kv.num_free_pages
        self.kv.fork(parent, child, num_tokens)
        assert self.kv.num_free_pages == num_free
        self.live.append(child)

    def lose_pages(self, rng: random.Random) -> None:
        if holders := self.holders():
            self.preempt(rng.choice(holders), swap=rng.random() < 0.5)

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

    def leave(self, rng: random.Random) -> None:
        if self.live:
            sequence = self.live.pop(rng.randrange(len(self.live)))
            self.kv.free(sequence)
            assert not sequence.page_table
            assert not self.kv.is_swapped(sequence)

    def pin_or_unpin(self, rng: random.Random) -> None:
        key = f"pin {rng.randint(0, 1)}"
        self.kv.unpin(key)
        if self.live and rng.random() < 0.7:
            self.kv.pin(key, rng.choice(self.live))

    def restart(self, rng: random.Random) -> None:
        """Another process takes in what was saved, into a pool that may be smaller."""
        max_pages, num_pages = rng.randint(0, 8), rng.randint(1, 12)
        saved = self.kv.pages_to_save(max_pages)
        assert len(saved) <= max_pages
        contents = [self.memory.page(page) for page, _ in saved]
        other = KvManager(num_pages, PAGE, groups=self.groups)
        pages = other.take_in([record for _, record in saved])
        assert len(pages) == min(len(saved), num_pages) == other.stats().num_cached_pages
        other.check_invariants()
        for sequence in self.live:
            for entry, page in enumerate(other.find_prefix(sequence)):
                if page != NO_PAGE:
                    stripe, group = divmod(entry, self.groups.num)
                    marks = self.marks(sequence, range(stripe * PAGE, (stripe + 1) * PAGE), group)
                    assert contents[pages.index(page)] == marks

    def reset(self, rng: random.Random) -> None:
        if rng.random() < 0.7:
            return
        self.kv.reset_prefix_cache()
        assert self.kv.stats().num_cached_pages == 0

    @invariant()
    def everyone_reads_back_their_own_tokens(self) -> None:
        self.memory.do(self.kv.take_moves())
        for sequence in self.holders():
            end = sequence.num_computed_tokens
            for group, window in enumerate(self.groups.windows):
                seen = range(max(0, end - window + 1) if window else 0, end)
                read = self.memory.read(sequence.page_table, seen, group)
                assert read == self.marks(sequence, seen, group)

    @invariant()
    def nobody_holds_more_than_was_promised(self) -> None:
        for sequence in self.holders():
            if not sequence.params.use_beam_search:
                num_stripes = len(sequence.page_table) // self.groups.num
                assert sequence.num_pages <= self.groups.num_pages(num_stripes)

    @invariant()
    def cached_pages_hold_the_tokens_of_their_names(self) -> None:
        self.memory.do(self.kv.take_moves())
        saved = self.kv.pages_to_save(self.num_pages)
        texts: list[list[int]] = []
        for page, record in saved:
            before = [] if record.parent < 0 else texts[record.parent]
            texts.append([*before, *record.token_ids])
            expected = list(enumerate(record.token_ids, start=len(before)))
            marks = [(token_id, at, record.group) for at, token_id in expected]
            assert self.memory.page(page) == marks

    @invariant()
    def pages_are_counted_exactly(self) -> None:
        self.kv.check_invariants()

    def holders(self) -> list[Sequence]:
        return [one for one in self.live if one.page_table]

    def marks(self, sequence: Sequence, positions: range, group: int) -> list[Mark]:
        return [(sequence.token_ids[at], at, group) for at in positions]

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
