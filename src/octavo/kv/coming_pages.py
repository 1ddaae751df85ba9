"""Full pages that are not there yet, but will be: some sequence that has pages will compute them.

Owns who computes what. Must not know pages or the prefix index.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from octavo.core.sequence import Sequence
from octavo.kv.prefix_index import PageName


class ComingPages:
    """Each name is computed for one sequence: the first that announced it."""

    def __init__(self) -> None:
        self._sequences: dict[PageName, Sequence] = {}

    def __len__(self) -> int:
        return len(self._sequences)

    def __contains__(self, name: PageName) -> bool:
        return name in self._sequences

    def items(self) -> Iterator[tuple[PageName, Sequence]]:
        return iter(self._sequences.items())

    def announce(self, sequence: Sequence, names: Iterable[PageName]) -> None:
        for name in names:
            self._sequences.setdefault(name, sequence)

    def withdraw(self, sequence: Sequence, names: Iterable[PageName]) -> None:
        """It has computed these, or gave up. Does nothing about names that others announced."""
        for name in names:
            if self._sequences.get(name) is sequence:
                del self._sequences[name]
