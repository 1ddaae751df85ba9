"""The names of a sequence's full pages, made once each, in order.

Owns what was named so far. Must not know pages: what a name stands for is the prefix index's.
"""

from __future__ import annotations

from octavo.core.sequence import Sequence
from octavo.kv.prefix_index import PageName, PrefixIndex, scope_of


class PageNamer:
    """Names stay valid because tokens are only ever appended to a sequence."""

    def __init__(self, index: PrefixIndex, page_tokens: int) -> None:
        self._index = index
        self._page_tokens = page_tokens
        self._names: dict[Sequence, list[PageName]] = {}

    def name(self, sequence: Sequence, position: int) -> PageName:
        """Of its full page number `position`. O(1), but for pages that have no name yet."""
        names = self._names.setdefault(sequence, [])
        while len(names) <= position:
            start = len(names) * self._page_tokens
            previous = names[-1] if names else None
            scope = previous.scope if previous is not None else _scope_of(sequence)
            token_ids = sequence.token_ids[start : start + self._page_tokens]
            names.append(self._index.name(previous, scope, token_ids))
        return names[position]

    def names_from(self, sequence: Sequence, position: int) -> list[PageName]:
        """Those made so far, from that of page number `position` on."""
        return self._names.get(sequence, [])[position:]

    def inherit(self, parent: Sequence, child: Sequence, num_pages: int) -> None:
        """`child`, of the same scope, begins with the tokens of `parent`'s first pages."""
        self._names[child] = self._names.get(parent, [])[:num_pages]

    def forget(self, sequence: Sequence) -> None:
        self._names.pop(sequence, None)


def _scope_of(sequence: Sequence) -> bytes:
    return scope_of(sequence.request.adapter, sequence.request.cache_salt)
