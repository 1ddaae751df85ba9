"""Page tables: filled from free and shared pages, copied on write, and emptied.

Owns `Sequence.page_table` and `Sequence.num_pages`, and that a page which gets new content has no
name any more. Knows neither names nor why a page is shared.
"""

from __future__ import annotations

from collections.abc import Iterable

from octavo.core.page_groups import NO_PAGE, PageGroups
from octavo.core.schedule import MoveKind
from octavo.core.sequence import Sequence
from octavo.kv.page_moves import PageMoves
from octavo.kv.page_pool import PagePool
from octavo.kv.prefix_index import PrefixIndex

NEW_PAGE = -2
"""Stands in a plan of a page table where a free page is to be taken."""


class PageTables:
    """A table has an entry of each group for each stripe: entry = stripe * groups.num + group."""

    def __init__(self, groups: PageGroups, pool: PagePool, index: PrefixIndex) -> None:
        self.moves = PageMoves()
        self._groups = groups
        self._page_tokens = groups.page_tokens
        self._pool = pool
        self._index = index

    def plan_behind(self, first: int, num_full: int, num_stripes: int) -> list[int]:
        """Of the stripes from `first` on, which entries need pages if `num_full` are computed."""
        groups = self._groups
        plan = [NO_PAGE] * ((num_stripes - first) * groups.num)
        for group in range(groups.num):
            count = max(0, groups.stop(group, num_full, num_stripes) - first)
            plan[group : count * groups.num : groups.num] = [NEW_PAGE] * count
        return plan

    def hold(self, sequence: Sequence, plan: list[int], num_reserved_pages: int) -> bool:
        """Give a sequence without pages a table as planned: shared pages, and new ones. All or
        nothing; false if less than `num_reserved_pages` free ones would be left."""
        shared = [page for page in plan if page >= 0]
        num_taken = plan.count(NEW_PAGE)
        num_revived = sum(map(self._pool.is_evictable, shared))
        if num_taken + num_revived + num_reserved_pages > self._pool.num_free:
            return False
        self.share(sequence, plan)
        self._fill(sequence, [at for at, page in enumerate(plan) if page == NEW_PAGE])
        return True

    def share(self, sequence: Sequence, table: list[int]) -> None:
        """A sequence without pages begins with this table, whose pages are others', too."""
        assert not sequence.page_table, "only a sequence without pages is given shared ones"
        for page in table:
            if page >= 0:
                self._pool.share(page)
                sequence.num_pages += 1
        sequence.page_table.extend(table)

    def those_to_grow(self, sequences: Iterable[Sequence]) -> list[Sequence]:
        """Those who cannot compute all their tokens before they `grow`: pages are missing, or the
        next one to be written is shared. Asked of everybody in every step, so without windows it
        is a glance at each table's length and at one page."""
        if self._groups.num > 1 or self._groups.windowed:
            return [one for one in sequences if self.num_pages_to_grow(one, one.num_tokens)]
        page_tokens, ref_counts = self._page_tokens, self._pool.ref_counts
        return [
            one
            for one in sequences
            if len(one.page_table) * page_tokens < len(one.token_ids)
            or ref_counts[one.page_table[one.num_computed_tokens // page_tokens]] > 1
        ]

    def num_pages_to_grow(self, sequence: Sequence, num_tokens: int) -> int:
        """How many free pages `grow` takes: missing ones, and those for copies."""
        table, page_tokens, num_groups = sequence.page_table, self._page_tokens, self._groups.num
        if len(table) * page_tokens < num_tokens * num_groups or table[-1] == NO_PAGE:
            return len(self._missing(sequence, num_tokens)) + len(self._shared_next(sequence))
        ref_counts, num_shared = self._pool.ref_counts, 0
        first = sequence.num_computed_tokens // page_tokens * num_groups
        for page in table[first : first + num_groups]:
            if ref_counts[page] > 1:
                num_shared += 1
        return num_shared

    def num_stripes_to_grow(self, sequence: Sequence, num_tokens: int) -> int:
        """By how many stripes `grow` makes the table longer, a copied one counted, too."""
        num_held = len(sequence.page_table) // self._groups.num
        num_new = max(0, -(-num_tokens // self._page_tokens) - num_held)
        return num_new + bool(self._shared_next(sequence))

    def grow(self, sequence: Sequence, num_tokens: int) -> bool:
        """Pages for what a step may compute of so many tokens, and the next to be written to its
        own. All or nothing; false if pages lack."""
        missing, shared = self._missing(sequence, num_tokens), self._shared_next(sequence)
        if len(missing) + len(shared) > self._pool.num_free:
            return False
        if sequence.num_computed_tokens % self._page_tokens:
            self._own_next(sequence, shared)
        table = sequence.page_table
        num_entries = -(-num_tokens // self._page_tokens) * self._groups.num
        table.extend([NO_PAGE] * (num_entries - len(table)))
        self._fill(sequence, missing)
        return True

    def drop_unseen(self, sequence: Sequence, num_full: int) -> None:
        """Give back what nobody sees when it and its forks go on behind `num_full` stripes."""
        if not self._groups.windowed:
            return
        table, num_groups = sequence.page_table, self._groups.num
        settled = num_settled(sequence, num_full, self._groups)
        for group in self._groups.windowed:
            stripe = self._groups.first_kept(group, settled) - 1
            entry = stripe * num_groups + group
            while entry >= 0 and table[entry] != NO_PAGE:
                self._release(sequence, table[entry])
                table[entry] = NO_PAGE
                entry -= num_groups

    def give_back(self, sequence: Sequence) -> None:
        """Last page first: of what stays cached, the ends of texts are evicted before beginnings,
        which others are likelier to share and without which an end cannot be found."""
        for page in reversed(sequence.page_table):
            if page != NO_PAGE:
                self._release(sequence, page)
        sequence.page_table.clear()

    def _missing(self, sequence: Sequence, num_tokens: int) -> list[int]:
        """Entries that need a page, in order."""
        table, groups = sequence.page_table, self._groups
        num_stripes = -(-num_tokens // self._page_tokens)
        if not groups.windowed:
            return list(range(len(table), num_stripes * groups.num))
        num_held = len(table) // groups.num
        num_stripes = max(num_held, num_stripes)
        num_full = sequence.num_computed_tokens // self._page_tokens
        missing = []
        for group in range(groups.num):
            stripe = groups.stop(group, num_full, num_stripes) - 1
            entry = stripe * groups.num + group
            while stripe >= num_full and (stripe >= num_held or table[entry] == NO_PAGE):
                missing.append(entry)
                stripe, entry = stripe - 1, entry - groups.num
        return sorted(missing)

    def _shared_next(self, sequence: Sequence) -> list[int]:
        """Entries of pages that its next token would be written to and that others can read."""
        table, ref_counts = sequence.page_table, self._pool.ref_counts
        if sequence.num_computed_tokens % self._page_tokens == 0:
            return []
        first = sequence.num_computed_tokens // self._page_tokens * self._groups.num
        entries = range(first, first + self._groups.num)
        return [at for at in entries if ref_counts[table[at]] > 1]

    def _own_next(self, sequence: Sequence, shared: list[int]) -> None:
        """Copies for what others can read. A fork that lost its parent may hold a cached page, and
        use a part of it: nobody is to find it any more."""
        table, groups = sequence.page_table, self._groups
        for entry in shared:
            page = table[entry]
            self._fill(sequence, [entry])
            self.moves.add(MoveKind.COPY, page, table[entry])
            self._release(sequence, page)
        first = sequence.num_computed_tokens // groups.page_tokens * groups.num
        for page in table[first : first + groups.num]:
            self._index.forget(page)

    def _fill(self, sequence: Sequence, entries: list[int]) -> None:
        table, tenant = sequence.page_table, sequence.request.tenant
        for entry in entries:
            page = table[entry] = self._pool.take(tenant)
            self._index.forget(page)
        sequence.num_pages += len(entries)

    def _release(self, sequence: Sequence, page: int) -> None:
        keep = self._index.holds(page)
        self._pool.release(page, keep=keep, owner=sequence.request.tenant)
        sequence.num_pages -= 1


def num_settled(sequence: Sequence, num_full: int, groups: PageGroups) -> int:
    """Of so many computed stripes, those behind which alone it, or a fork of it, goes on. Beams may
    part where the prompt ends, whenever they come back."""
    if sequence.params.use_beam_search:
        return min(num_full, sequence.num_prompt_tokens // groups.page_tokens)
    return num_full
