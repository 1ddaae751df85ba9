"""What the compiler and its worker process say to each other: a length of four bytes,
little-endian, and a body in msgpack.
"""

from __future__ import annotations

from typing import Final

import msgspec

HEADER_BYTES: Final = 4


class WorkerLimits(msgspec.Struct, frozen=True):
    """What one grammar may take; the worker's command line ends with it, as JSON."""

    seconds: float
    memory_bytes: int
    max_schema_depth: int


class Answer(msgspec.Struct, frozen=True, array_like=True):
    """A grammar that compiles, or what is wrong in which field."""

    grammar: str = ""
    error: str = ""
    param: str = ""


def frame(body: bytes) -> bytes:
    return len(body).to_bytes(HEADER_BYTES, "little") + body


def frame_size(header: bytes) -> int:
    return int.from_bytes(header, "little")
