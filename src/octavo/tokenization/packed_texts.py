"""Many short texts in one piece of memory: as Python strings they take about ten times as much.

Knows no vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


class PackedTexts:
    """Read by index, from 0. Each reading makes the string anew."""

    __slots__ = ("_bytes", "_starts")

    def __init__(self, texts: Sequence[str]) -> None:
        pieces = [text.encode("utf-8", "surrogatepass") for text in texts]
        starts = np.zeros(len(pieces) + 1, np.uint32)
        np.cumsum(np.fromiter(map(len, pieces), np.uint32, len(pieces)), out=starts[1:])
        self._bytes = b"".join(pieces)
        self._starts = memoryview(starts)  # whose items are plain integers

    def __len__(self) -> int:
        return len(self._starts) - 1

    def __getitem__(self, index: int) -> str:
        if not 0 <= index < len(self):
            raise IndexError(index)
        piece = self._bytes[self._starts[index] : self._starts[index + 1]]
        return piece.decode("utf-8", "surrogatepass")
