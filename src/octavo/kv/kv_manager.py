"""Who holds which page: sequences get pages, free ones and cached prefixes, and give them back.

Owns, at admission, `Sequence.num_computed_tokens`. Integers only: must not know what a page holds
in memory, and takes no decision about who runs or waits.

A page may be referenced by several sequences: as a cached prefix, when it is full and computed, or
after `fork`, up to the partial last page. Nobody writes what somebody else can read: a sequence
writes behind its computed tokens only, and before it does, `grow` gives it pages of its own. What
then has to be copied, or goes to and comes from the swap space, are *moves* (`take_moves`). They
are carried out in their order and before anything is computed, so a page may be given to somebody
else as soon as the move that reads it is recorded.

Where a group of layers has a window (`core.page_groups`), pages that fall out of it are given back
as soon as a stripe is full; they stay cached until somebody needs them. Beams part from one another
at any time, so they keep what is seen from the end of their prompt on.
"""

from __future__ import annotations

from octavo.core.page_groups import NO_PAGE, PageGroups
from octavo.core.schedule import MoveKind, PageMove
from octavo.core.sequence import PAGE_TOKENS, Sequence
from octavo.kv.kv_check import KvState, check_kv_state
from octavo.kv.kv_stats import KvStats, num_wasted_slots
from octavo.kv.page_pool import PagePool
from octavo.kv.page_tables import NEW_PAGE, PageTables
from octavo.kv.pins import Pins
from octavo.kv.prefix_cache import PrefixCache
from octavo.kv.saved_pages import SavedPage, pages_to_save, take_in
from octavo.kv.swap_space import SwapSpace

MAX_TENANT_SHARE = 0.5
"""Of the cached pages that nobody uses, before a tenant's new pages replace its own old ones."""


class KvManager:
    """Operations are O(1) or O(pages touched), but for `num_wasted_slots`.

    `max_pinned_pages` are kept back from the pages that sequences may count on (`num_pages`).
    """

    def __init__(
        self,
        num_pages: int,
        page_tokens: int = PAGE_TOKENS,
        enable_prefix_caching: bool = True,
        *,
        groups: PageGroups | None = None,
        num_swap_slots: int = 0,
        max_pinned_pages: int = 0,
        max_tenant_share: float = MAX_TENANT_SHARE,
    ) -> None:
        self.groups = groups or PageGroups(page_tokens=page_tokens)
        assert self.groups.page_tokens == page_tokens, "groups of other pages"
        self.page_tokens = page_tokens
        self._pool = PagePool(num_pages, max_tenant_share)
        self._cache = PrefixCache(self.groups, enable_prefix_caching)
        self._tables = PageTables(self.groups, self._pool, self._cache.index)
        self.num_pages_to_grow = self._tables.num_pages_to_grow
        """(sequence, num_tokens): how many free pages `grow` would take."""
        self.those_to_grow = self._tables.those_to_grow
        """(sequences): those who must `grow` before all their tokens can be computed."""
        self._pins = Pins(self._pool, max_pinned_pages)
        self._swap = SwapSpace(num_swap_slots)
        self._num_committed: dict[Sequence, int] = {}
        """Of each sequence with pages: how many stripes it had computed when it last said so."""

    @property
    def num_pages(self) -> int:
        """Those that sequences may count on, whatever is pinned."""
        return self._pool.num_pages - self._pins.max_pages

    @property
    def num_free_pages(self) -> int:
        return self._pool.num_free

    def allocate(self, sequence: Sequence, *, num_reserved_pages: int, use_prefix: bool) -> bool:
        """Give pages for all its tokens to a sequence that holds none; all or nothing.

        The longest cached beginning is shared and counts as computed, if `use_prefix`. Refuses if
        fewer than `num_reserved_pages` free pages would be left. A sequence that comes back after
        preemption, and mostly finds its own pages, is left out of the hit statistics.
        """
        assert not self.is_swapped(sequence), "a swapped sequence comes back by swap_in"
        prefix = self.find_prefix(sequence) if use_prefix else []
        num_shared = len(prefix) // self.groups.num
        num_stripes = self.groups.num_stripes(sequence.num_tokens)
        plan = prefix + self._tables.plan_behind(num_shared, num_shared, num_stripes)
        if not self._tables.hold(sequence, plan, num_reserved_pages):
            return False
        self._num_committed[sequence] = num_shared
        self._cache.announce(sequence, num_shared)
        sequence.num_computed_tokens = num_shared * self.page_tokens
        if use_prefix and sequence.num_preemptions == 0:
            self._cache.count(sequence)
        return True

    def find_prefix(self, sequence: Sequence) -> list[int]:
        """A page table of the longest cached beginning of its tokens, but for the last one, which
        has to be computed; changes nothing."""
        return self._cache.find(sequence)

    def num_cached_tokens(self, sequence: Sequence) -> int:
        """The length of that beginning."""
        return len(self._cache.find(sequence)) // self.groups.num * self.page_tokens

    def is_prefix_coming(self, sequence: Sequence) -> bool:
        """Whether what follows that beginning, as far as tokens are known, is yet to be computed
        for a sequence with pages: who waits for it need not compute it again."""
        return self._cache.is_coming(sequence)

    def grow(self, sequence: Sequence, num_tokens: int) -> bool:
        """Make its page table cover `num_tokens` tokens, of windows what a step may compute, and
        the pages that are written next its own. All or nothing; false if pages lack."""
        if not self._tables.grow(sequence, num_tokens):
            return False
        self._num_committed.setdefault(sequence, 0)
        return True

    def num_stripes_to_grow(self, sequence: Sequence, num_tokens: int) -> int:
        """By how many stripes `grow` would make its page table longer; a copied one counts, too."""
        return self._tables.num_stripes_to_grow(sequence, num_tokens)

    def num_private_pages(self, sequence: Sequence) -> int:
        """How many pages would be free if it gave back all it has."""
        held = (page for page in sequence.page_table if page != NO_PAGE)
        return sum(self._pool.ref_counts[page] == 1 for page in held)

    def can_fork(self, parent: Sequence, num_tokens: int) -> bool:
        """Whether the parent still holds all that is seen from behind its first `num_tokens`."""
        table, groups = parent.page_table, self.groups
        stop = groups.num_stripes(num_tokens)
        firsts = ((groups.first_seen(group, num_tokens), group) for group in groups.windowed)
        return num_tokens <= parent.num_computed_tokens and all(
            first >= stop or table[first * groups.num + group] != NO_PAGE for first, group in firsts
        )

    def fork(self, parent: Sequence, child: Sequence, num_tokens: int) -> None:
        """Let `child`, which holds no pages, share those of the parent's first `num_tokens`
        computed tokens, the partial last ones included. It begins with the same tokens. The
        parent must hold what is needed (`can_fork`)."""
        assert not self.is_swapped(parent), "only a sequence with pages can be forked"
        assert self.can_fork(parent, num_tokens), "only what is computed and held can be forked"
        num_full = num_tokens // self.page_tokens
        num_entries = self.groups.num_stripes(num_tokens) * self.groups.num
        self._cache.inherit(parent, child, num_full)
        self._tables.share(child, parent.page_table[:num_entries])
        self._num_committed[child] = min(num_full, self._num_committed[parent])
        child.num_computed_tokens = num_tokens
        self._tables.drop_unseen(child, num_full)

    def commit(self, sequence: Sequence) -> None:
        """It has computed more. Stripes that have become full are offered to the prefix index, and
        what nobody sees any more is given back."""
        num_committed = self._num_committed[sequence]
        num_full = sequence.num_computed_tokens // self.page_tokens
        if num_committed >= num_full:
            return
        self._cache.offer(sequence, num_committed, num_full)
        self._num_committed[sequence] = num_full
        self._tables.drop_unseen(sequence, num_full)

    def free(self, sequence: Sequence) -> None:
        """Take all its pages and slots back; nothing of it is computed any more, and it may come
        back with other tokens. Idempotent."""
        self._give_back(sequence)
        self._swap.drop(sequence)
        self._cache.forget(sequence)
        sequence.num_computed_tokens = 0

    def is_swapped(self, sequence: Sequence) -> bool:
        return self._swap.holds(sequence)

    def swap_out(self, sequence: Sequence) -> bool:
        """Move what its pages hold to the swap space, and take them all back; its tokens still
        count as computed. False, and nothing is changed, if slots lack."""
        num_stripes = self.groups.num_stripes(sequence.num_computed_tokens)
        table = sequence.page_table[: num_stripes * self.groups.num]
        slots = self._swap.put(sequence, table)
        if slots is None:
            return False
        for page, slot in zip(table, slots, strict=True):
            if page != NO_PAGE:
                self._tables.moves.add(MoveKind.SWAP_OUT, page, slot)
        self._give_back(sequence)
        return True

    def swap_in(self, sequence: Sequence, *, num_reserved_pages: int) -> bool:
        """Give pages for all its tokens to a swapped sequence, as `allocate` does; all or nothing.
        Those that are still cached are shared, and what the others held comes back into them."""
        slots = self._swap.slots_of(sequence)
        num_full = sequence.num_computed_tokens // self.page_tokens
        plan = [NO_PAGE if slot == NO_PAGE else NEW_PAGE for slot in slots]
        self._cache.fill_in(sequence, plan, NEW_PAGE, num_full)
        moved = [(at, slot) for at, slot in enumerate(slots) if plan[at] == NEW_PAGE]
        num_stripes = self.groups.num_stripes(sequence.num_tokens)
        plan += self._tables.plan_behind(len(slots) // self.groups.num, num_full, num_stripes)
        if not self._tables.hold(sequence, plan, num_reserved_pages):
            return False
        for entry, slot in moved:
            self._tables.moves.add(MoveKind.SWAP_IN, slot, sequence.page_table[entry])
        self._swap.drop(sequence)
        self._cache.offer(sequence, 0, num_full)
        self._cache.announce(sequence, num_full)
        self._num_committed[sequence] = num_full
        return True

    def take_moves(self) -> list[PageMove]:
        """Those recorded since this was last asked, in the order in which they must be done."""
        return self._tables.moves.take()

    def pin(self, key: str, sequence: Sequence) -> bool:
        """Keep the cached beginning of its tokens from eviction until `unpin(key)`. False, and
        nothing is pinned, if that would be more than `max_pinned_pages` in all."""
        return self._pins.add(key, self._cache.find(sequence))

    def unpin(self, key: str) -> None:
        """Let go of what `key` pins. Idempotent."""
        self._pins.remove(key)

    def reset_prefix_cache(self) -> None:
        """Forget all cached prefixes, pinned ones too. Sequences that run keep their pages."""
        self._pins.clear()
        self._cache.index.clear()
        self._pool.blank_evictable()

    def pages_to_save(self, max_pages: int) -> list[tuple[int, SavedPage]]:
        """What of the prefix cache is to outlive the process, the most valuable first."""
        return pages_to_save(self._cache.index, self._pool, max_pages)

    def take_in(self, records: list[SavedPage]) -> list[int]:
        """Pages for the first of the saved records, as many as are blank, cached under their names.
        The caller writes the content before anything else happens."""
        if not self._cache.is_enabled:
            return []
        return take_in(self._cache.index, self._pool, records, self.groups.num)

    def stats(self) -> KvStats:
        pool, num_moves = self._pool, self._tables.moves.counts
        return KvStats(
            num_pages=pool.num_pages,
            num_used_pages=pool.num_used,
            num_cached_pages=pool.num_evictable,
            prefix_queries=self._cache.num_queries,
            prefix_hits=self._cache.num_hits,
            num_saved_pages=pool.num_references - pool.num_used,
            num_pinned_pages=self._pins.num_pages,
            num_swap_slots=self._swap.num_slots,
            num_swapped_pages=self._swap.num_used,
            num_swapped_sequences=self._swap.num_sequences,
            num_copies=num_moves[MoveKind.COPY],
            num_swap_outs=num_moves[MoveKind.SWAP_OUT],
            num_swap_ins=num_moves[MoveKind.SWAP_IN],
            num_evictions=pool.num_evictions,
        )

    def num_wasted_slots(self) -> int:
        """Slots of used pages that no token is meant for, each counted once. O(sequences)."""
        return num_wasted_slots(self._num_committed, self._pool, self.groups)

    def check_invariants(self) -> None:
        """Raise AssertionError unless pages and tables agree. O(pages); for tests."""
        check_kv_state(
            KvState(self.groups, self._pool, self._cache, self._pins, self._num_committed)
        )
        self._swap.check_invariants()

    def _give_back(self, sequence: Sequence) -> None:
        self._cache.withdraw(sequence, self._num_committed.pop(sequence, 0))
        self._tables.give_back(sequence)
