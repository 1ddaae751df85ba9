"""Who holds which page: page tables of sequences, filled from free pages and cached prefixes.

Owns `Sequence.page_table` and, at admission, `Sequence.num_computed_tokens`. Integers only: must
not know what a page holds in memory, and takes no decision about who runs or waits.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from octavo.core.sequence import PAGE_TOKENS, Sequence
from octavo.kv.page_pool import PagePool
from octavo.kv.prefix_index import PageName, PrefixIndex


@dataclass(frozen=True, slots=True)
class KvStats:
    """Pages now, and prompt tokens ever asked of and served by the prefix cache.

    used + cached + blank pages are all pages; `num_cached_pages` only the prefix cache holds, so
    they count as free.
    """

    num_pages: int
    num_used_pages: int
    num_cached_pages: int
    prefix_queries: int
    prefix_hits: int


@dataclass(slots=True)
class _Holding:
    """What the manager remembers of a sequence that holds pages.

    `names` are those of its first full pages, made when first needed; they stay valid because
    tokens are only ever appended. The first `num_indexed` of them have been offered to the index.
    """

    names: list[PageName] = field(default_factory=list)
    num_indexed: int = 0


class KvManager:
    """Operations are O(1) or O(pages touched).

    Pages are shared when they are full and computed, and are never written again after that: a
    sequence writes only behind its last full page.
    """

    def __init__(
        self, num_pages: int, page_tokens: int = PAGE_TOKENS, enable_prefix_caching: bool = True
    ) -> None:
        self.page_tokens = page_tokens
        self.enable_prefix_caching = enable_prefix_caching
        self._pool = PagePool(num_pages)
        self._index = PrefixIndex()
        self._holdings: dict[Sequence, _Holding] = {}
        self._coming: dict[PageName, Sequence] = {}  # full pages that this sequence will compute
        self._prefix_queries = 0
        self._prefix_hits = 0

    @property
    def num_slots(self) -> int:
        """Tokens that all pages together can hold."""
        return self._pool.num_pages * self.page_tokens

    @property
    def num_free_pages(self) -> int:
        return self._pool.num_free

    def allocate(self, sequence: Sequence, *, num_reserved_pages: int, use_prefix: bool) -> bool:
        """Give pages for all its tokens to a sequence that holds none; all or nothing.

        The longest cached beginning is shared and counts as computed, if `use_prefix`. Refuses if
        fewer than `num_reserved_pages` free pages would be left. A sequence that comes back after
        preemption, and mostly finds its own pages, is left out of the hit statistics.
        """
        shared = self.find_prefix(sequence) if use_prefix else []
        num_taken = self._num_pages_for(sequence.num_tokens) - len(shared)
        num_revived = sum(map(self._pool.is_evictable, shared))
        if num_taken + num_revived + num_reserved_pages > self._pool.num_free:
            return False
        self._share(sequence, shared)
        if use_prefix and self.enable_prefix_caching and sequence.num_preemptions == 0:
            self._prefix_queries += sequence.num_tokens
            self._prefix_hits += sequence.num_computed_tokens
        self._announce(sequence)
        return self.grow(sequence, sequence.num_tokens)

    def find_prefix(self, sequence: Sequence) -> list[int]:
        """Pages that hold the longest cached beginning of its tokens; changes nothing.

        Never all of the tokens: the last one has to be computed, or there would be no logits.
        """
        if not self.enable_prefix_caching:
            return []
        pages: list[int] = []
        for position in range((sequence.num_tokens - 1) // self.page_tokens):
            page = self._index.find(self._name(sequence, position))
            if page is None:
                break
            pages.append(page)
        return pages

    def is_prefix_coming(self, sequence: Sequence) -> bool:
        """Whether the page behind its cached beginning, as far as its tokens are known, is one that
        a sequence with pages has yet to compute: who waits for it need not compute it again."""
        if not self._coming:  # before the search, which `allocate` is about to make
            return False
        position = len(self.find_prefix(sequence))
        if position >= (sequence.num_tokens - 1) // self.page_tokens:
            return False
        return self._name(sequence, position) in self._coming

    def grow(self, sequence: Sequence, num_tokens: int) -> bool:
        """Make its page table cover `num_tokens` tokens. All or nothing; false if pages lack."""
        num_missing = self._num_pages_for(num_tokens) - len(sequence.page_table)
        if num_missing <= 0:
            return True
        if num_missing > self._pool.num_free:
            return False
        self._holdings.setdefault(sequence, _Holding())
        for _ in range(num_missing):
            page = self._pool.take()
            self._index.forget(page)
            sequence.page_table.append(page)
        return True

    def commit(self, sequence: Sequence) -> None:
        """Offer its pages that have become full and computed to the prefix index."""
        holding = self._holdings[sequence]
        num_full = sequence.num_computed_tokens // self.page_tokens
        if not self.enable_prefix_caching or holding.num_indexed >= num_full:
            return
        for position in range(holding.num_indexed, num_full):
            name = self._name(sequence, position)
            self._index.insert(name, sequence.page_table[position])
            self._withdraw(sequence, name)
        holding.num_indexed = num_full

    def free(self, sequence: Sequence) -> None:
        """Take all its pages back; nothing of it is computed any more. Idempotent.

        Last page first: of what stays cached, the ends of texts are evicted before beginnings,
        which others are likelier to share and without which an end cannot be found.
        """
        holding = self._holdings.pop(sequence, _Holding())
        for name in holding.names[holding.num_indexed :]:
            self._withdraw(sequence, name)
        for page in reversed(sequence.page_table):
            self._pool.release(page, keep=self._index.holds(page))
        sequence.page_table.clear()
        sequence.num_computed_tokens = 0

    def reset_prefix_cache(self) -> None:
        """Forget all cached prefixes. Sequences that run keep their pages."""
        self._index.clear()
        self._pool.blank_evictable()

    def stats(self) -> KvStats:
        return KvStats(
            num_pages=self._pool.num_pages,
            num_used_pages=self._pool.num_used,
            num_cached_pages=self._pool.num_evictable,
            prefix_queries=self._prefix_queries,
            prefix_hits=self._prefix_hits,
        )

    def check_invariants(self) -> None:
        """Raise AssertionError unless pages and tables agree. O(pages); for tests."""
        tables = [sequence.page_table for sequence in self._holdings]
        occurrences = Counter(page for table in tables for page in table)
        assert all(len(set(table)) == len(table) for table in tables), "a table repeats a page"
        for page in range(self._pool.num_pages):
            count = self._pool.ref_count(page)
            assert count == occurrences[page], f"page {page}: {count} references, not in tables"
            evictable = self._pool.is_evictable(page)
            assert not (evictable and count), f"page {page} is used and evictable"
            assert not evictable or self._index.holds(page), f"page {page} is kept without a name"
        assert self._pool.num_used == len(occurrences), "used pages are not those in tables"
        for name, sequence in self._coming.items():
            holding = self._holdings[sequence]
            assert name in holding.names[holding.num_indexed :], "nobody will compute a page"
        for sequence in self._holdings:
            num_full = sequence.num_computed_tokens // self.page_tokens
            assert sequence.num_computed_tokens <= len(sequence.page_table) * self.page_tokens
            for page in sequence.page_table[num_full:]:
                assert occurrences[page] == 1, f"page {page} is shared but not full"
                assert not self._index.holds(page), f"page {page} is cached but not full"

    def _share(self, sequence: Sequence, pages: list[int]) -> None:
        assert not sequence.page_table, "only a sequence without pages can be admitted"
        for page in pages:
            self._pool.share(page)
        sequence.page_table.extend(pages)
        sequence.num_computed_tokens = len(pages) * self.page_tokens
        self._holdings.setdefault(sequence, _Holding()).num_indexed = len(pages)

    def _announce(self, sequence: Sequence) -> None:
        if not self.enable_prefix_caching:
            return
        num_shared = len(sequence.page_table)
        for position in range(num_shared, sequence.num_tokens // self.page_tokens):
            self._coming.setdefault(self._name(sequence, position), sequence)

    def _withdraw(self, sequence: Sequence, name: PageName) -> None:
        if self._coming.get(name) is sequence:
            del self._coming[name]

    def _name(self, sequence: Sequence, position: int) -> PageName:
        """The name of its full page number `position`. Names are made once, in order."""
        names = self._holdings.setdefault(sequence, _Holding()).names
        while len(names) <= position:
            start = len(names) * self.page_tokens
            names.append(
                self._index.name(
                    names[-1] if names else None,
                    sequence.request.cache_salt,
                    sequence.token_ids[start : start + self.page_tokens],
                )
            )
        return names[position]

    def _num_pages_for(self, num_tokens: int) -> int:
        return -(-num_tokens // self.page_tokens)
