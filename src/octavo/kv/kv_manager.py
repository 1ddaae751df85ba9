"""Who holds which page: page tables of sequences, filled from free pages and cached prefixes.

Owns `Sequence.page_table` and, at admission, `Sequence.num_computed_tokens`. Integers only: must
not know what a page holds in memory, and takes no decision about who runs or waits.

A page may be referenced by several sequences: as a cached prefix, when it is full and computed, or
after `fork`, up to the partial last page. Nobody writes what somebody else can read: a sequence
writes behind its computed tokens only, and before it does, `grow` gives it a page of its own. What
then has to be copied, or goes to and comes from the swap space, are *moves* (`take_moves`). They
are carried out in their order and before anything is computed, so a page may be given to somebody
else as soon as the move that reads it is recorded.
"""

from __future__ import annotations

from octavo.core.schedule import MoveKind, PageMove
from octavo.core.sequence import PAGE_TOKENS, Sequence
from octavo.kv.coming_pages import ComingPages
from octavo.kv.kv_check import KvState, check_kv_state
from octavo.kv.kv_stats import KvStats, num_wasted_slots
from octavo.kv.page_namer import PageNamer
from octavo.kv.page_pool import PagePool
from octavo.kv.pins import Pins
from octavo.kv.prefix_index import PrefixIndex
from octavo.kv.prefix_search import PrefixSearch
from octavo.kv.saved_pages import SavedPage, pages_to_save, take_in
from octavo.kv.swap_space import SwapSpace

MAX_TENANT_SHARE = 0.5
"""Of the cached pages that nobody uses, before a tenant's new pages replace its own old ones."""


class KvManager:
    """Operations are O(1) or O(pages touched), but for `num_wasted_slots`.

    `max_pinned_pages` are kept back from the pages that sequences may count on (`num_slots`).
    """

    def __init__(
        self,
        num_pages: int,
        page_tokens: int = PAGE_TOKENS,
        enable_prefix_caching: bool = True,
        *,
        num_swap_slots: int = 0,
        max_pinned_pages: int = 0,
        max_tenant_share: float = MAX_TENANT_SHARE,
    ) -> None:
        self.page_tokens = page_tokens
        self.enable_prefix_caching = enable_prefix_caching
        self._pool = PagePool(num_pages, max_tenant_share)
        self._index = PrefixIndex()
        self._namer = PageNamer(self._index, page_tokens)
        self._search = PrefixSearch(self._index, self._namer)
        self._coming = ComingPages()
        self._pins = Pins(self._pool, max_pinned_pages)
        self._swap = SwapSpace(num_swap_slots)
        self._num_indexed: dict[Sequence, int] = {}
        """Of each sequence with pages: how many of its pages were offered to the index."""
        self._moves: list[PageMove] = []
        self._num_moves = dict.fromkeys(MoveKind, 0)
        self._prefix_queries = 0
        self._prefix_hits = 0

    @property
    def num_slots(self) -> int:
        """Tokens that all pages together can hold, whatever is pinned."""
        return (self._pool.num_pages - self._pins.max_pages) * self.page_tokens

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
        shared = self.find_prefix(sequence) if use_prefix else []
        if not self._hold(sequence, shared, num_reserved_pages):
            return False
        sequence.num_computed_tokens = len(shared) * self.page_tokens
        if use_prefix and self.enable_prefix_caching and sequence.num_preemptions == 0:
            self._prefix_queries += sequence.num_tokens
            self._prefix_hits += sequence.num_computed_tokens
        return True

    def find_prefix(self, sequence: Sequence) -> list[int]:
        """Pages that hold the longest cached beginning of its tokens; changes nothing.

        Never all of the tokens: the last one has to be computed, or there would be no logits.
        """
        if not self.enable_prefix_caching:
            return []
        return self._search.find(sequence, (sequence.num_tokens - 1) // self.page_tokens)

    def is_prefix_coming(self, sequence: Sequence) -> bool:
        """Whether the page behind its cached beginning, as far as its tokens are known, is one that
        a sequence with pages has yet to compute: who waits for it need not compute it again."""
        if not self._coming:
            return False
        position = len(self.find_prefix(sequence))
        if position >= (sequence.num_tokens - 1) // self.page_tokens:
            return False
        return self._namer.name(sequence, position) in self._coming

    def grow(self, sequence: Sequence, num_tokens: int) -> bool:
        """Make its page table cover `num_tokens` tokens, and the page that is written next its own.
        All or nothing; false if pages lack."""
        num_taken = self.num_pages_to_grow(sequence, num_tokens)
        if num_taken > self._pool.num_free:
            return False
        self._own_next_page(sequence)
        if num_taken > 0:
            self._num_indexed.setdefault(sequence, 0)
            while len(sequence.page_table) < self._num_pages_for(num_tokens):
                sequence.page_table.append(self._take(sequence))
        return True

    def num_pages_to_grow(self, sequence: Sequence, num_tokens: int) -> int:
        """How many free pages `grow` would take: missing ones, and one for a copy."""
        table = sequence.page_table
        position = sequence.num_computed_tokens // self.page_tokens
        is_shared = position < len(table) and self._pool.ref_count(table[position]) > 1
        return max(0, self._num_pages_for(num_tokens) - len(table)) + int(is_shared)

    def num_private_pages(self, sequence: Sequence) -> int:
        """How many pages would be free if it gave back all it has."""
        return sum(self._pool.ref_count(page) == 1 for page in sequence.page_table)

    def fork(self, parent: Sequence, child: Sequence, num_tokens: int) -> None:
        """Let `child`, which holds no pages, share those of the parent's first `num_tokens`
        computed tokens, the partial last page included. It begins with the same tokens."""
        assert num_tokens <= parent.num_computed_tokens, "only what is computed can be forked"
        assert not self.is_swapped(parent), "only a sequence with pages can be forked"
        pages = parent.page_table[: self._num_pages_for(num_tokens)]
        num_full = num_tokens // self.page_tokens
        self._namer.inherit(parent, child, num_full)
        self._share(child, pages)
        self._num_indexed[child] = min(num_full, self._num_indexed[parent])
        child.num_computed_tokens = num_tokens

    def commit(self, sequence: Sequence) -> None:
        """Offer its pages that have become full and computed to the prefix index."""
        num_indexed = self._num_indexed[sequence]
        num_full = sequence.num_computed_tokens // self.page_tokens
        if not self.enable_prefix_caching or num_indexed >= num_full:
            return
        names = [self._namer.name(sequence, position) for position in range(num_indexed, num_full)]
        for name, page in zip(names, sequence.page_table[num_indexed:num_full], strict=True):
            self._index.insert(name, page)
        self._coming.withdraw(sequence, names)
        self._num_indexed[sequence] = num_full

    def free(self, sequence: Sequence) -> None:
        """Take all its pages and slots back; nothing of it is computed any more, and it may come
        back with other tokens. Idempotent."""
        self._give_back(sequence)
        self._swap.drop(sequence)
        self._namer.forget(sequence)
        self._search.forget(sequence)
        sequence.num_computed_tokens = 0

    def is_swapped(self, sequence: Sequence) -> bool:
        return self._swap.holds(sequence)

    def swap_out(self, sequence: Sequence) -> bool:
        """Move what its pages hold to the swap space, and take them all back; its tokens still
        count as computed. False, and nothing is changed, if slots lack."""
        pages = sequence.page_table[: self._num_pages_for(sequence.num_computed_tokens)]
        slots = self._swap.put(sequence, len(pages))
        if slots is None:
            return False
        for page, slot in zip(pages, slots, strict=True):
            self._move(MoveKind.SWAP_OUT, page, slot)
        self._give_back(sequence)
        return True

    def swap_in(self, sequence: Sequence, *, num_reserved_pages: int) -> bool:
        """Give pages for all its tokens to a swapped sequence, as `allocate` does; all or nothing.
        Those that are still cached are shared, and what the others held comes back into them."""
        slots = self._swap.slots_of(sequence)
        num_full = sequence.num_computed_tokens // self.page_tokens
        shared = self._search.find(sequence, num_full) if self.enable_prefix_caching else []
        if not self._hold(sequence, shared, num_reserved_pages):
            return False
        for position in range(len(shared), len(slots)):
            self._move(MoveKind.SWAP_IN, slots[position], sequence.page_table[position])
        self._swap.drop(sequence)
        return True

    def take_moves(self) -> list[PageMove]:
        """Those recorded since this was last asked, in the order in which they must be done."""
        moves, self._moves = self._moves, []
        return moves

    def pin(self, key: str, sequence: Sequence) -> bool:
        """Keep the cached beginning of its tokens from eviction until `unpin(key)`. False, and
        nothing is pinned, if that would be more than `max_pinned_pages` in all."""
        return self._pins.add(key, self.find_prefix(sequence))

    def unpin(self, key: str) -> None:
        """Let go of what `key` pins. Idempotent."""
        self._pins.remove(key)

    def reset_prefix_cache(self) -> None:
        """Forget all cached prefixes, pinned ones too. Sequences that run keep their pages."""
        self._pins.clear()
        self._index.clear()
        self._pool.blank_evictable()

    def pages_to_save(self, max_pages: int) -> list[tuple[int, SavedPage]]:
        """What of the prefix cache is to outlive the process, the most valuable first."""
        return pages_to_save(self._index, self._pool, max_pages)

    def take_in(self, records: list[SavedPage]) -> list[int]:
        """Pages for the first of the saved records, as many as are blank, cached under their names.
        The caller writes the content before anything else happens."""
        return take_in(self._index, self._pool, records) if self.enable_prefix_caching else []

    def stats(self) -> KvStats:
        pool = self._pool
        return KvStats(
            num_pages=pool.num_pages,
            num_used_pages=pool.num_used,
            num_cached_pages=pool.num_evictable,
            prefix_queries=self._prefix_queries,
            prefix_hits=self._prefix_hits,
            num_saved_pages=pool.num_references - pool.num_used,
            num_pinned_pages=self._pins.num_pages,
            num_swap_slots=self._swap.num_slots,
            num_swapped_pages=self._swap.num_used,
            num_swapped_sequences=self._swap.num_sequences,
            num_copies=self._num_moves[MoveKind.COPY],
            num_swap_outs=self._num_moves[MoveKind.SWAP_OUT],
            num_swap_ins=self._num_moves[MoveKind.SWAP_IN],
            num_evictions=pool.num_evictions,
        )

    def num_wasted_slots(self) -> int:
        """Slots of used pages that no token is meant for, each counted once. O(sequences)."""
        return num_wasted_slots(self._num_indexed, self._pool, self.page_tokens)

    def check_invariants(self) -> None:
        """Raise AssertionError unless pages and tables agree. O(pages); for tests."""
        check_kv_state(
            KvState(
                self._pool, self._index, self._coming, self._pins, self._namer, self._num_indexed
            ),
            self.page_tokens,
        )
        self._swap.check_invariants()

    def _hold(self, sequence: Sequence, shared: list[int], num_reserved_pages: int) -> bool:
        """Give it these cached pages, and new ones for the rest of its tokens; all or nothing."""
        num_taken = self._num_pages_for(sequence.num_tokens) - len(shared)
        num_revived = sum(map(self._pool.is_evictable, shared))
        if num_taken + num_revived + num_reserved_pages > self._pool.num_free:
            return False
        self._share(sequence, shared)
        for _ in range(num_taken):
            sequence.page_table.append(self._take(sequence))
        self._announce(sequence, len(shared))
        return True

    def _share(self, sequence: Sequence, pages: list[int]) -> None:
        assert not sequence.page_table, "only a sequence without pages is given shared ones"
        for page in pages:
            self._pool.share(page)
        sequence.page_table.extend(pages)
        self._num_indexed[sequence] = len(pages)

    def _give_back(self, sequence: Sequence) -> None:
        """Last page first: of what stays cached, the ends of texts are evicted before beginnings,
        which others are likelier to share and without which an end cannot be found."""
        num_indexed = self._num_indexed.pop(sequence, 0)
        self._coming.withdraw(sequence, self._namer.names_from(sequence, num_indexed))
        for page in reversed(sequence.page_table):
            self._release(sequence, page)
        sequence.page_table.clear()

    def _take(self, sequence: Sequence) -> int:
        page = self._pool.take(sequence.request.tenant)
        self._index.forget(page)
        return page

    def _release(self, sequence: Sequence, page: int) -> None:
        keep = self._index.holds(page)
        self._pool.release(page, keep=keep, owner=sequence.request.tenant)

    def _own_next_page(self, sequence: Sequence) -> None:
        """Make the page that its next token goes into one that nobody else can read."""
        position = sequence.num_computed_tokens // self.page_tokens
        if position >= len(sequence.page_table):
            return
        page = sequence.page_table[position]
        if self._pool.ref_count(page) > 1:
            sequence.page_table[position] = self._take(sequence)
            self._move(MoveKind.COPY, page, sequence.page_table[position])
            self._release(sequence, page)
        else:  # a fork that lost its parent may hold a cached page, and use a part of it
            self._index.forget(page)

    def _move(self, kind: MoveKind, source: int, target: int) -> None:
        self._moves.append(PageMove(kind, source, target))
        self._num_moves[kind] += 1

    def _announce(self, sequence: Sequence, num_shared: int) -> None:
        if not self.enable_prefix_caching:
            return
        num_full = sequence.num_tokens // self.page_tokens
        positions = range(num_shared, num_full)
        self._coming.announce(sequence, (self._namer.name(sequence, at) for at in positions))

    def _num_pages_for(self, num_tokens: int) -> int:
        return -(-num_tokens // self.page_tokens)
