"""Finds the spellings of control tokens in text, and breaks them. Knows no ids' meaning.

Leftmost match, longest spelling. The expression is a tree over common beginnings, so that a
vocabulary with thousands of reserved tokens costs one look per character.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property


class Spellings:
    """`ids` maps each spelling to its token id. Spellings of one character cannot be told from
    plain text and are never matched."""

    def __init__(self, ids: Mapping[str, int]) -> None:
        self._ids = {spelling: id_ for spelling, id_ in ids.items() if len(spelling) > 1}

    def split(self, text: str) -> Iterator[str | int]:
        """The text as plain parts (never empty) and token ids, in order."""
        position = 0
        for match in self._pattern.finditer(text) if self._ids else ():
            if match.start() > position:
                yield text[position : match.start()]
            yield self._ids[match.group()]
            position = match.end()
        if position < len(text):
            yield text[position:]

    def break_in(self, text: str, separator: str) -> str:
        """`text` with `separator` put where it keeps every spelling from being whole: inside each
        one, and at an end that a neighbouring text could complete to one."""
        if not self._ids:
            return text
        text = self._start_pattern.sub(rf"\g<0>{separator}", text)
        if self._is_open(text.rstrip(), self._sorted, from_end=True):
            end = len(text.rstrip())
            text = text[:end] + separator + text[end:]
        if self._is_open(text.lstrip(), self._sorted_reversed, from_end=False):
            start = len(text) - len(text.lstrip())
            text = text[:start] + separator + text[start:]
        return text

    def _is_open(self, text: str, spellings: list[str], *, from_end: bool) -> bool:
        """Whether the end of the text begins a spelling (or its beginning ends one)."""
        for length in range(1, min(len(text), self._longest - 1) + 1):
            edge = text[-length:] if from_end else text[:length][::-1]
            place = bisect_left(spellings, edge)
            if place < len(spellings) and spellings[place].startswith(edge):
                return True
        return False

    @cached_property
    def _longest(self) -> int:
        return max(map(len, self._ids))

    @cached_property
    def _sorted(self) -> list[str]:
        return sorted(self._ids)

    @cached_property
    def _sorted_reversed(self) -> list[str]:
        return sorted(spelling[::-1] for spelling in self._ids)

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(_tree_pattern(self._ids), re.DOTALL)

    @cached_property
    def _start_pattern(self) -> re.Pattern[str]:
        """The first character of every spelling, overlapping ones too."""
        return re.compile(rf"(?={_tree_pattern(self._ids)}).", re.DOTALL)


Tree = dict[str, "Tree"]


def _tree_pattern(words: Iterable[str]) -> str:
    """An expression that matches the longest of `words` at a position."""
    root: Tree = {}
    for word in words:
        node = root
        for character in word:
            node = node.setdefault(character, {})
        node[""] = {}
    return _render(root)


def _render(node: Tree) -> str:
    """Longer branches stand first, the end of a word last."""
    literal = ""
    while len(node) == 1 and "" not in node:
        ((character, node),) = node.items()
        literal += re.escape(character)
    branches = [re.escape(char) + _render(child) for char, child in node.items() if char]
    if not branches:
        return literal
    if "" in node:
        branches.append("")
    return f"{literal}(?:{'|'.join(branches)})"
