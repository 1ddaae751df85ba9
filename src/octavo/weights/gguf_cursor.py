"""A read position in a mapped GGUF file that never passes its end. Knows primitives, no structure.

Lengths are checked against the bytes that remain before a byte of them is touched.
"""

from __future__ import annotations

import struct
from mmap import mmap
from pathlib import Path
from typing import Final

from octavo.core.packed_texts import PackedTexts
from octavo.errors import WeightError
from octavo.kernels._native import read_strings

MAX_STRING_BYTES: Final = 1 << 24

_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")


class Cursor:
    def __init__(self, file: Path, buffer: mmap | bytes) -> None:
        self.file = file
        self.size = len(buffer)
        self.position = 0
        self._buffer = buffer

    def error(self, what: str, offset: int | None = None) -> WeightError:
        """An error at `offset`, or at the current position."""
        return WeightError(self.file, what, offset=self.position if offset is None else offset)

    def take(self, num_bytes: int, what: str) -> bytes:
        """The next `num_bytes` bytes. `what` names them in the error if the file ends before."""
        remaining = self.size - self.position
        if num_bytes > remaining:
            raise self.error(f"{what} needs {num_bytes} bytes; {remaining} remain in the file")
        start = self.position
        self.position += num_bytes
        return self._buffer[start : self.position]

    def u32(self, what: str) -> int:
        value: int = _U32.unpack(self.take(4, what))[0]
        return value

    def u64(self, what: str) -> int:
        value: int = _U64.unpack(self.take(8, what))[0]
        return value

    def count(self, what: str, most: int, *, item_bytes: int) -> int:
        """A number of items that take `item_bytes` bytes each at the least, and at most `most`."""
        start = self.position
        value = self.u64(what)
        fits = min(most, (self.size - self.position) // item_bytes)
        if value > fits:
            raise self.error(f"{what} is {value}; at most {fits} can follow", start)
        return value

    def string(self, what: str, max_bytes: int = MAX_STRING_BYTES) -> str:
        start = self.position
        num_bytes = self.count(f"the length of {what}", max_bytes, item_bytes=1)
        try:
            return self.take(num_bytes, what).decode()
        except UnicodeDecodeError:
            raise self.error(f"{what} is not valid UTF-8", start) from None

    def strings(self, what: str, num_strings: int) -> PackedTexts:
        """`num_strings` strings by one call: vocabularies have hundreds of thousands.

        Equal to as many calls of `string`; the bytes that fault are found by such a call.
        """
        data, starts, self.position = read_strings(
            self._buffer, self.position, num_strings, MAX_STRING_BYTES
        )
        texts = PackedTexts(data, starts)
        if len(texts) < num_strings:
            self.string(f"item {len(texts)} of {what}")  # raises: it is why the loop ended
        return texts
