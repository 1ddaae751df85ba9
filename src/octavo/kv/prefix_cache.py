"""The prefix cache by sequence: what of its tokens is cached, what it has cached, what it will.

Owns names, the index, and the figures of hits. Must not know reference counts: whether a page may
be reused is the page pool's business.
"""

from __future__ import annotations

from octavo.core.page_groups import NO_PAGE, PageGroups
from octavo.core.sequence import Sequence
from octavo.kv.coming_pages import ComingPages
from octavo.kv.page_namer import PageNamer
from octavo.kv.page_tables import num_settled
from octavo.kv.prefix_index import PrefixIndex
from octavo.kv.prefix_search import PrefixSearch


class PrefixCache:
    """Finds and keeps nothing if not `is_enabled`. `num_queries` and `num_hits` are tokens."""

    def __init__(self, groups: PageGroups, is_enabled: bool) -> None:
        self.is_enabled = is_enabled
        self.index = PrefixIndex(groups.num)
        self.namer = PageNamer(self.index, groups.page_tokens)
        self.coming = ComingPages()
        self.num_queries = 0
        self.num_hits = 0
        self._groups = groups
        self._search = PrefixSearch(groups, self.index, self.namer)

    def find(self, sequence: Sequence) -> list[int]:
        """A page table of the longest cached beginning of its tokens; changes nothing.

        Never all of the tokens: the last one has to be computed, or there would be no logits.
        """
        if not self.is_enabled:
            return []
        num_stripes = (sequence.num_tokens - 1) // self._groups.page_tokens
        return self._search.find(
            sequence, num_stripes, num_settled(sequence, num_stripes, self._groups)
        )

    def is_coming(self, sequence: Sequence) -> bool:
        """Whether the stripe behind its cached beginning, as far as its tokens are known, is one
        that a sequence with pages has yet to compute."""
        if not self.coming:
            return False
        stripe = len(self.find(sequence)) // self._groups.num
        if stripe >= (sequence.num_tokens - 1) // self._groups.page_tokens:
            return False
        return self.namer.name(sequence, stripe) in self.coming

    def fill_in(self, sequence: Sequence, plan: list[int], wanted: int, num_full: int) -> None:
        """Put cached pages of its first `num_full` stripes where a plan says `wanted`."""
        for stripe in range(num_full if self.is_enabled else 0):
            cached = self.index.find(self.namer.name(sequence, stripe)) or ()
            for entry, page in enumerate(cached, stripe * self._groups.num):
                if page != NO_PAGE and plan[entry] == wanted:
                    plan[entry] = page

    def announce(self, sequence: Sequence, start: int) -> None:
        """It is going to compute its stripes from `start` on, as far as tokens fill them."""
        if self.is_enabled:
            stripes = range(start, sequence.num_tokens // self._groups.page_tokens)
            self.coming.announce(sequence, (self.namer.name(sequence, at) for at in stripes))

    def offer(self, sequence: Sequence, start: int, stop: int) -> None:
        """Its stripes [start, stop) are computed, and may be found from now on."""
        if not self.is_enabled:
            return
        table, num_groups = sequence.page_table, self._groups.num
        names = [self.namer.name(sequence, stripe) for stripe in range(start, stop)]
        for entry, name in zip(
            range(start * num_groups, len(table), num_groups), names, strict=False
        ):
            self.index.insert(name, table[entry : entry + num_groups])
        self.coming.withdraw(sequence, names)

    def withdraw(self, sequence: Sequence, start: int) -> None:
        """It will not compute its stripes from `start` on."""
        self.coming.withdraw(sequence, self.namer.names_from(sequence, start))

    def inherit(self, parent: Sequence, child: Sequence, num_stripes: int) -> None:
        """`child` begins with the tokens of the parent's first stripes."""
        self.namer.inherit(parent, child, num_stripes)

    def forget(self, sequence: Sequence) -> None:
        """Its tokens may be others when it comes back."""
        self.namer.forget(sequence)
        self._search.forget(sequence)

    def count(self, sequence: Sequence) -> None:
        """It was served what counts as computed now."""
        if self.is_enabled:
            self.num_queries += sequence.num_tokens
            self.num_hits += sequence.num_computed_tokens
