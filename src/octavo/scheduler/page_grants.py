"""Whether a sequence gets the pages it asks for: out of what is free and promised to nobody else.

Knows pages, promises and beam searches; neither slots nor the budget of a step.
"""

from __future__ import annotations

from octavo.core.sequence import Sequence, SequenceState
from octavo.kv.kv_manager import KvManager
from octavo.scheduler.beam_search import max_beam_stripes
from octavo.scheduler.beam_searches import BeamSearches
from octavo.scheduler.promises import PagePromises
from octavo.scheduler.slots import num_slots
from octavo.scheduler.step_plan import reads_prefix


class PageGrants:
    """`promises` are those of all that run."""

    def __init__(self, kv: KvManager, searches: BeamSearches) -> None:
        self.promises = PagePromises(kv.groups)
        self._kv = kv
        self._searches = searches

    def grow(self, sequence: Sequence, *, is_alone: bool) -> bool:
        """Pages for all its tokens: out of its own promise, or of what nobody was promised.

        `is_alone`: nobody else runs, so that nobody else's promise counts."""
        num_pages = self._kv.num_pages_to_grow(sequence, len(sequence.token_ids))
        if num_pages == 0:
            return True
        holder = self._searches.lead_of(sequence)
        others = self.promises.num_pages - self.promises.left(holder)
        if num_pages > self._kv.num_free_pages - (0 if is_alone else others):
            return False
        self.promises.use(holder, self._kv.num_stripes_to_grow(sequence, sequence.num_tokens))
        return self._kv.grow(sequence, sequence.num_tokens)

    def give(
        self, sequence: Sequence, leader: Sequence | None, *, max_tokens: int, is_first: bool
    ) -> bool:
        """Pages for all tokens of one that waits, if all promises, its own included, stay covered.

        It takes its prompt's pages of `leader`, a sibling, if it can. It has `max_tokens` at most.
        `is_first`: nobody runs, so that nothing is held back for anybody.
        """
        promise = self.promises.size_for(
            sequence.num_preemptions, self._max_growth(sequence, max_tokens), num_slots(sequence)
        )
        num_reserved = 0
        if not is_first:
            num_promised = self.promises.pages_for(sequence, promise)
            num_reserved = self.promises.num_pages_to_keep + num_promised
        if self._kv.is_swapped(sequence):
            given = self._kv.swap_in(sequence, num_reserved_pages=num_reserved)
        elif leader is not None and self._can_fork(leader, sequence):
            given = self._fork(leader, sequence, num_reserved)
        else:
            given = self._allocate(sequence, num_reserved)
        if given:
            self.promises.give(sequence, promise)
        return given

    def _allocate(self, sequence: Sequence, num_reserved: int) -> bool:
        """Pages for a newcomer."""
        allocated = self._kv.allocate(
            sequence, num_reserved_pages=num_reserved, use_prefix=reads_prefix(sequence)
        )
        if allocated and sequence.num_preemptions == 0:
            sequence.num_cached_tokens = sequence.num_computed_tokens
        return allocated

    def _can_fork(self, leader: Sequence, sequence: Sequence) -> bool:
        """Whether it can begin with the pages of its sibling, which has computed the prompt."""
        return (
            sequence.num_tokens == sequence.num_prompt_tokens > 1
            and leader.state is SequenceState.RUNNING
            and leader.num_computed_tokens >= leader.num_prompt_tokens
            and self._kv.can_fork(leader, sequence.num_prompt_tokens - 1)
        )

    def _fork(self, leader: Sequence, sequence: Sequence, num_reserved: int) -> bool:
        """Share all of the prompt but its last token, which is computed again for its logits."""
        self._kv.fork(leader, sequence, sequence.num_prompt_tokens - 1)
        num_pages = self._kv.num_pages_to_grow(sequence, sequence.num_tokens)
        if num_pages + num_reserved > self._kv.num_free_pages:
            self._kv.free(sequence)
            return False
        sequence.num_cached_tokens = leader.num_cached_tokens
        return self._kv.grow(sequence, sequence.num_tokens)

    def _max_growth(self, sequence: Sequence, max_tokens: int) -> int:
        """Stripes that it, or its search, can take at most beyond those that its tokens fill."""
        num_stripes = max_beam_stripes(
            sequence.num_prompt_tokens, max_tokens, num_slots(sequence), self._kv.page_tokens
        )
        return num_stripes - self._kv.groups.num_stripes(sequence.num_tokens)
