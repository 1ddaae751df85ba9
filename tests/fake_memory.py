"""Page memory that holds marks instead of keys and values, and does what page moves say."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

from octavo.core.schedule import MoveKind, PageMove

Mark = TypeVar("Mark")


class FakeMemory(Generic[Mark]):
    """`slots[page * page_tokens + i]` is the mark in slot i of a page; `empty` until written."""

    def __init__(self, num_pages: int, page_tokens: int, empty: Mark, num_groups: int = 1) -> None:
        self.page_tokens = page_tokens
        self.num_groups = num_groups
        self.slots = [empty] * (num_pages * page_tokens)
        self._swapped: dict[int, list[Mark]] = {}

    def do(self, moves: Iterable[PageMove]) -> None:
        for kind, source, target in moves:
            if kind is MoveKind.SWAP_OUT:
                self._swapped[target] = self.page(source)
            else:
                swapped = kind is MoveKind.SWAP_IN
                self._write_page(target, self._swapped[source] if swapped else self.page(source))

    def page(self, page: int) -> list[Mark]:
        return self.slots[page * self.page_tokens : (page + 1) * self.page_tokens]

    def slot(self, page_table: list[int], position: int, group: int = 0) -> int:
        """Where the token at `position` belongs."""
        page = page_table[position // self.page_tokens * self.num_groups + group]
        assert page >= 0, f"group {group} holds no page of position {position}"
        return page * self.page_tokens + position % self.page_tokens

    def read(self, page_table: list[int], positions: range, group: int = 0) -> list[Mark]:
        """The marks of the tokens at these positions."""
        return [self.slots[self.slot(page_table, position, group)] for position in positions]

    def _write_page(self, page: int, marks: list[Mark]) -> None:
        self.slots[page * self.page_tokens : (page + 1) * self.page_tokens] = marks
