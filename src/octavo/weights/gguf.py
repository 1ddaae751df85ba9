"""Reads GGUF files (versions 2 and 3, little endian) without trusting a byte of them.

Owns the format: header, metadata, tensor infos, where the tensors lie. Knows no architecture and
no arithmetic on tensors. Every count, length, type and offset is checked against the bytes that
remain, as Python integers, before anything is allocated for it. Only `WeightError` escapes.

Format: the GGUF specification of the ggml project (docs/gguf.md).
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from os import PathLike, fspath
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Final

import numpy as np
import numpy.typing as npt

from octavo.errors import WeightError
from octavo.weights.gguf_cursor import Cursor
from octavo.weights.gguf_types import SUPPORTED_TENSOR_TYPES, TENSOR_TYPES, TensorType
from octavo.weights.gguf_values import read_value
from octavo.weights.metadata import MetadataValue, metadata_int

MAGIC: Final = b"GGUF"
VERSIONS: Final = (2, 3)
DEFAULT_ALIGNMENT_BYTES: Final = 32
MAX_ALIGNMENT_BYTES: Final = 1 << 16
MAX_KEYS: Final = 1 << 16
MAX_KEY_BYTES: Final = (1 << 16) - 1
MAX_TENSORS: Final = 1 << 17
MAX_TENSOR_NAME_BYTES: Final = 256
MAX_DIMS: Final = 4

_MIN_KEY_BYTES = 8 + 1 + 4 + 1
_MIN_TENSOR_BYTES = 8 + 1 + 4 + 8 + 4 + 8


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """`shape` is in numpy order, the contiguous axis last: (N rows, K) or (K,).

    `offset` counts bytes from the start of the file.
    """

    name: str
    type_name: str
    shape: tuple[int, ...]
    offset: int
    num_bytes: int


class GGUFFile:
    """A mapped model file. Metadata is copied out; tensor bytes stay in the file until used.

    Numeric arrays of the metadata are numpy arrays, arrays of strings are `PackedTexts`.
    """

    def __init__(
        self,
        path: Path,
        mapping: mmap.mmap,
        metadata: Mapping[str, MetadataValue],
        tensors: Mapping[str, TensorInfo],
    ) -> None:
        self.path = path
        self.metadata = metadata
        self.tensors = tensors
        self._mapping: mmap.mmap | None = mapping

    @classmethod
    def open(cls, path: str | PathLike[str]) -> GGUFFile:
        """Map and check the file. Raises `WeightError` for a file that is missing or malformed."""
        path = Path(fspath(path))
        mapping = _map(path)
        cursor = Cursor(path, mapping)
        num_tensors, num_keys = _read_header(cursor)
        metadata = _read_metadata(cursor, num_keys)
        tensors = _read_tensors(cursor, num_tensors, metadata)
        return cls(path, mapping, MappingProxyType(metadata), MappingProxyType(tensors))

    def data(self, name: str) -> npt.NDArray[np.uint8]:
        """The bytes of one tensor, uint8 [num_bytes], read-only, not copied.

        Raises `WeightError` if there is no such tensor or its type cannot be computed with.
        """
        info = self.tensors.get(name)
        if info is None:
            raise WeightError(self.path, f"has no tensor {name!r}")
        if info.type_name not in SUPPORTED_TENSOR_TYPES:
            raise WeightError(
                self.path,
                f"tensor {name!r} has type {info.type_name}, which is not supported; "
                f"supported: {', '.join(SUPPORTED_TENSOR_TYPES)}",
                offset=info.offset,
            )
        if self._mapping is None:
            raise ValueError("the file is closed")
        return np.frombuffer(self._mapping, np.uint8, info.num_bytes, info.offset)

    def read_ahead(self, offset: int, num_bytes: int) -> None:
        """Let the system bring these bytes of the file into memory while others are worked on."""
        start = offset // mmap.PAGESIZE * mmap.PAGESIZE
        if self._mapping is not None and start < len(self._mapping):
            length = min(num_bytes, len(self._mapping) - start)
            self._mapping.madvise(mmap.MADV_WILLNEED, start, length)

    def release(self) -> None:
        """Drop the file's pages from this process's memory; later reads bring them back."""
        if self._mapping is not None:
            self._mapping.madvise(mmap.MADV_DONTNEED)

    def close(self) -> None:
        """Let go of the mapping. It lives on while arrays from `data` do."""
        self._mapping = None

    def __enter__(self) -> GGUFFile:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _map(path: Path) -> mmap.mmap:
    if not path.is_file():
        raise WeightError(path, "there is no such file")
    try:
        with path.open("rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise WeightError(path, f"cannot be read: {error.strerror}") from None
    except ValueError:  # nothing can be mapped
        raise WeightError(path, "is empty", offset=0) from None


def _read_header(cursor: Cursor) -> tuple[int, int]:
    """Number of tensors and of metadata keys."""
    magic = cursor.take(4, "the magic")
    if magic != MAGIC:
        raise cursor.error(f"starts with {magic!r}; a GGUF file starts with {MAGIC!r}", 0)
    version = cursor.u32("the version")
    if version not in VERSIONS:
        if int.from_bytes(version.to_bytes(4, "little"), "big") in (1, *VERSIONS):
            raise cursor.error("is a big-endian GGUF file; only little-endian is supported", 4)
        raise cursor.error(f"is GGUF version {version}; versions 2 and 3 are supported", 4)
    num_tensors = cursor.count("the number of tensors", MAX_TENSORS, item_bytes=_MIN_TENSOR_BYTES)
    num_keys = cursor.count("the number of keys", MAX_KEYS, item_bytes=_MIN_KEY_BYTES)
    return num_tensors, num_keys


def _read_metadata(cursor: Cursor, num_keys: int) -> dict[str, MetadataValue]:
    metadata: dict[str, MetadataValue] = {}
    for index in range(num_keys):
        start = cursor.position
        key = cursor.string(f"key {index}", MAX_KEY_BYTES)
        if not key or key in metadata:
            fault = "occurs twice" if key else "is empty"
            raise cursor.error(f"key {index} ({key!r:.80}) {fault}", start)
        metadata[key] = read_value(cursor, key)
    return metadata


def _read_tensors(
    cursor: Cursor, num_tensors: int, metadata: Mapping[str, MetadataValue]
) -> dict[str, TensorInfo]:
    alignment = _alignment(cursor, metadata)
    entries: dict[str, tuple[TensorInfo, int]] = {}
    for index in range(num_tensors):
        start = cursor.position
        info = _read_tensor(cursor, index, alignment)
        if info.name in entries:
            raise cursor.error(f"tensor {info.name!r} occurs twice", start)
        entries[info.name] = (info, start)
    return _place(cursor, entries, alignment)


def _alignment(cursor: Cursor, metadata: Mapping[str, MetadataValue]) -> int:
    key = "general.alignment"
    alignment = metadata_int(
        metadata, key, 8, MAX_ALIGNMENT_BYTES, default=DEFAULT_ALIGNMENT_BYTES, file=cursor.file
    )
    if alignment & (alignment - 1):
        raise WeightError(cursor.file, f"{key} is {alignment}; a power of two is allowed")
    return alignment


def _read_tensor(cursor: Cursor, index: int, alignment: int) -> TensorInfo:
    """One tensor info; its offset still counts from the start of the tensor data."""
    start = cursor.position
    name = cursor.string(f"the name of tensor {index}", MAX_TENSOR_NAME_BYTES)
    if not name:
        raise cursor.error(f"the name of tensor {index} is empty", start)
    shape = _read_shape(cursor, name)
    start = cursor.position
    type_number = cursor.u32(f"the type of tensor {name!r}")
    tensor_type = TENSOR_TYPES.get(type_number)
    if tensor_type is None:
        known = ", ".join(known.name for known in TENSOR_TYPES.values())
        raise cursor.error(
            f"tensor {name!r} has type number {type_number}, which is unknown; known: {known}",
            start,
        )
    num_bytes = _num_bytes(cursor, name, shape, tensor_type)
    start = cursor.position
    offset = cursor.u64(f"the offset of tensor {name!r}")
    if offset % alignment:
        raise cursor.error(
            f"tensor {name!r} has offset {offset}, not a multiple of the alignment {alignment}",
            start,
        )
    return TensorInfo(name, tensor_type.name, shape, offset, num_bytes)


def _read_shape(cursor: Cursor, name: str) -> tuple[int, ...]:
    start = cursor.position
    num_dims = cursor.u32(f"the number of dimensions of tensor {name!r}")
    if not 1 <= num_dims <= MAX_DIMS:
        raise cursor.error(
            f"tensor {name!r} has {num_dims} dimensions; 1 to {MAX_DIMS} are allowed", start
        )
    start = cursor.position
    dims = [cursor.u64(f"the dimensions of tensor {name!r}") for _ in range(num_dims)]
    for dim in dims:
        if not 1 <= dim < 1 << 63:
            raise cursor.error(f"tensor {name!r} has a dimension {dim}; 1 to 2^63-1 fit", start)
    return tuple(reversed(dims))


def _num_bytes(cursor: Cursor, name: str, shape: tuple[int, ...], tensor_type: TensorType) -> int:
    if shape[-1] % tensor_type.block_values:
        raise cursor.error(
            f"tensor {name!r} has rows of {shape[-1]} values; type {tensor_type.name} needs a "
            f"multiple of {tensor_type.block_values}"
        )
    num_bytes = math.prod(shape) // tensor_type.block_values * tensor_type.block_bytes
    if num_bytes > cursor.size:
        raise cursor.error(f"tensor {name!r} needs {num_bytes} bytes; the file has {cursor.size}")
    return num_bytes


def _place(
    cursor: Cursor, entries: Mapping[str, tuple[TensorInfo, int]], alignment: int
) -> dict[str, TensorInfo]:
    """Turn offsets into file positions: inside the file and apart from each other."""
    data_start = -(-cursor.position // alignment) * alignment
    placed: dict[str, TensorInfo] = {}
    for name, (info, entry) in entries.items():
        offset = data_start + info.offset
        if offset + info.num_bytes > cursor.size:
            raise cursor.error(
                f"tensor {name!r} ends at byte {offset + info.num_bytes}; the file has "
                f"{cursor.size}",
                entry,
            )
        placed[name] = TensorInfo(name, info.type_name, info.shape, offset, info.num_bytes)
    for before, after in pairwise(sorted(placed.values(), key=lambda info: info.offset)):
        if before.offset + before.num_bytes > after.offset:
            raise cursor.error(f"tensors {before.name!r} and {after.name!r} overlap", after.offset)
    return placed
