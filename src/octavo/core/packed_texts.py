"""Many short texts in one piece of memory: as Python strings they take about ten times as much.

Knows no vocabulary.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from typing import Final, Self

_START_FORMAT: Final = "Q"
_END: Final = b"\xff"
_DECODED_END: Final = "\udcff"
"""As "surrogateescape" has it, the fastest way to cut texts apart."""


class PackedTexts:
    """Texts by index, from 0. Each reading makes the string anew.

    `data` holds their UTF-8, each followed by the byte 0xff, which is in none; `starts`, native
    64-bit unsigned integers, where each begins, and last the length of `data`.
    """

    __slots__ = ("_data", "_starts")

    def __init__(self, data: bytes, starts: bytes) -> None:
        self._data = data
        self._starts = memoryview(starts).cast(_START_FORMAT)

    @classmethod
    def pack(cls, texts: Iterable[str]) -> Self:
        """Raises `UnicodeEncodeError` for a lone surrogate."""
        pieces = [text.encode() + _END for text in texts]
        starts = array(_START_FORMAT, [0])
        for piece in pieces:
            starts.append(starts[-1] + len(piece))
        return cls(b"".join(pieces), starts.tobytes())

    def __len__(self) -> int:
        return len(self._starts) - 1

    def __getitem__(self, index: int) -> str:
        starts = self._starts
        if not 0 <= index < len(starts) - 1:
            raise IndexError(f"there is no text {index} among {len(self)}")
        return self._data[starts[index] : starts[index + 1] - 1].decode()

    def __iter__(self) -> Iterator[str]:
        """All of them: ten times faster than by index."""
        texts = self._data.decode("utf-8", "surrogateescape").split(_DECODED_END)
        texts.pop()  # what is behind the last end
        return iter(texts)
