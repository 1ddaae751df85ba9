"""The file that holds cached prefixes between two runs of the engine: its format, and no policy.

Little endian. A header: magic, format version, tokens of a page, groups of layers, bytes of a page,
number of pages, the identity of model and numerics. Then one record per page: its parent's number
or -1, its group, its scope, its token ids, its checksum, its content. A record's checksum covers
all of it and, by the parent's checksum, everything before it in the text: no record can pass for
the continuation of another one.

Nothing in the file is trusted or evaluated. What does not check is left out, and all that follows
from it.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterable
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from octavo.kv.saved_pages import NO_PARENT, SavedPage

U8 = npt.NDArray[np.uint8]

MAGIC = b"octavo prefixes\n"
FORMAT_VERSION = 2
CHECKSUM_BYTES = 16
_HEADER = struct.Struct("<16sIIIQQ32s")


class PageFormat(NamedTuple):
    """What writer and reader must agree on. `identity` has 32 bytes."""

    page_tokens: int
    num_groups: int
    page_bytes: int
    identity: bytes

    @property
    def record(self) -> struct.Struct:
        return struct.Struct(f"<iI32s{self.page_tokens}i")

    @property
    def record_bytes(self) -> int:
        return self.record.size + CHECKSUM_BYTES + self.page_bytes

    def max_pages(self, max_bytes: int) -> int:
        """How many pages a file of so many bytes can hold."""
        return max(0, max_bytes - _HEADER.size) // self.record_bytes


class UnusableFile(ValueError):
    """Not written by us, or for another model or arithmetic. The message says why."""


def write_prefix_file(
    path: Path, layout: PageFormat, records: list[SavedPage], contents: Iterable[U8]
) -> None:
    """Replace the file in one go; only its owner may read it. Raises OSError, and leaves the old
    file as it is then."""
    temporary = path.with_name(f".{path.name}.tmp")  # one name, so that none is left over for long
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    try:
        with os.fdopen(os.open(temporary, flags, 0o600), "wb") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(_header(layout, len(records)))
            checksums: list[bytes] = []
            for record, content in zip(records, contents, strict=True):
                facts = layout.record.pack(
                    record.parent, record.group, record.scope, *record.token_ids
                )
                checksums.append(_checksum(facts, content, record.parent, checksums))
                file.write(facts + checksums[-1])
                file.write(content.data)
        temporary.replace(path)
    except OSError:
        with suppress(OSError):
            temporary.unlink()
        raise


def read_prefix_file(path: Path, layout: PageFormat) -> tuple[list[SavedPage], list[U8], int]:
    """Records that check, their contents (valid as long as they are held), and how many did not.

    Raises OSError, or `UnusableFile`.
    """
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        if status.st_uid != os.geteuid():
            raise UnusableFile("it belongs to another user")
        if status.st_size < _HEADER.size:
            raise UnusableFile("it is cut off")
        data = np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)
    num_pages = _read_header(data[: _HEADER.size].tobytes(), layout)
    if data.size != _HEADER.size + num_pages * layout.record_bytes:
        raise UnusableFile("it is cut off")
    records: list[SavedPage] = []
    contents: list[U8] = []
    checksums: list[bytes] = []
    kept: dict[int, int] = {NO_PARENT: NO_PARENT}
    """Where in `records` a record of the file is."""
    for number, row in enumerate(data[_HEADER.size :].reshape(num_pages, layout.record_bytes)):
        facts, content = row[: layout.record.size].tobytes(), row[-layout.page_bytes :]
        parent, group, scope, *token_ids = layout.record.unpack(facts)
        stored = row[layout.record.size : -layout.page_bytes].tobytes()
        is_sound = parent in kept and group < layout.num_groups
        if not is_sound or stored != _checksum(facts, content, kept[parent], checksums):
            continue
        kept[number] = len(records)
        records.append(SavedPage(kept[parent], group, scope, tuple(token_ids)))
        contents.append(content)
        checksums.append(stored)
    return records, contents, num_pages - len(records)


def _header(layout: PageFormat, num_pages: int) -> bytes:
    *sizes, identity = layout
    return _HEADER.pack(MAGIC, FORMAT_VERSION, *sizes, num_pages, identity)


def _read_header(data: bytes, layout: PageFormat) -> int:
    """The number of pages."""
    magic, version, *sizes, num_pages, identity = _HEADER.unpack(data)
    if magic != MAGIC:
        raise UnusableFile("it is no file of cached prefixes")
    if version != FORMAT_VERSION:
        raise UnusableFile(f"its format is {version}; {FORMAT_VERSION} is read")
    if (*sizes, identity) != layout:
        raise UnusableFile("it was written for another model, other options or another build")
    return int(num_pages)


def _checksum(facts: bytes, content: U8, parent: int, checksums: list[bytes]) -> bytes:
    """Of a record, with its parent's checksum in place of the parent's number."""
    digest = blake2b(digest_size=CHECKSUM_BYTES)
    digest.update(checksums[parent] if parent != NO_PARENT else bytes(CHECKSUM_BYTES))
    digest.update(facts[4:])
    digest.update(content.data)
    return digest.digest()
