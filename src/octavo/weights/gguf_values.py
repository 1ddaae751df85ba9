"""Reads one metadata value of a GGUF file: a number, a truth value, a string or an array of them.

Arrays of arrays are refused: the format can spell them, no model needs them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import numpy as np

from octavo.core.packed_texts import PackedTexts
from octavo.weights.gguf_cursor import Cursor
from octavo.weights.metadata import MetadataValue, NumericArray

MAX_ARRAY_ITEMS: Final = 1 << 24

_BOOL, _STRING, _ARRAY = 7, 8, 9
_NUMBERS: Final[Mapping[int, np.dtype[np.generic]]] = MappingProxyType(
    {
        0: np.dtype("<u1"),
        1: np.dtype("<i1"),
        2: np.dtype("<u2"),
        3: np.dtype("<i2"),
        4: np.dtype("<u4"),
        5: np.dtype("<i4"),
        6: np.dtype("<f4"),
        10: np.dtype("<u8"),
        11: np.dtype("<i8"),
        12: np.dtype("<f8"),
    }
)


def read_value(cursor: Cursor, key: str) -> MetadataValue:
    start = cursor.position
    type_number = cursor.u32(f"the type of {key!r}")
    if type_number == _STRING:
        return cursor.string(repr(key))
    if type_number == _ARRAY:
        return _read_array(cursor, key)
    if type_number == _BOOL:
        return _truth(cursor, key, cursor.take(1, repr(key)))[0]
    if type_number in _NUMBERS:
        return _read_number(cursor, key, _NUMBERS[type_number])
    raise cursor.error(f"{key!r} has value type {type_number}; 0 to 12 are allowed", start)


def _read_number(cursor: Cursor, key: str, dtype: np.dtype[np.generic]) -> int | float:
    number: int | float = np.frombuffer(cursor.take(dtype.itemsize, repr(key)), dtype)[0].item()
    return number


def _read_array(cursor: Cursor, key: str) -> PackedTexts | NumericArray:
    start = cursor.position
    type_number = cursor.u32(f"the item type of {key!r}")
    if type_number == _ARRAY:
        raise cursor.error(f"{key!r} is an array of arrays, which is not supported", start)
    if type_number != _STRING and type_number != _BOOL and type_number not in _NUMBERS:
        raise cursor.error(f"{key!r} has items of type {type_number}; 0 to 12 are allowed", start)
    length = f"the length of {key!r}"
    if type_number == _STRING:
        return cursor.strings(repr(key), cursor.count(length, MAX_ARRAY_ITEMS, item_bytes=8))
    dtype = np.dtype("<u1") if type_number == _BOOL else _NUMBERS[type_number]
    num_items = cursor.count(length, MAX_ARRAY_ITEMS, item_bytes=dtype.itemsize)
    data = cursor.take(num_items * dtype.itemsize, repr(key))
    if type_number == _BOOL:
        return np.array(_truth(cursor, key, data), dtype=np.bool_)
    return np.frombuffer(data, dtype)


def _truth(cursor: Cursor, key: str, data: bytes) -> list[bool]:
    if max(data, default=0) > 1:
        raise cursor.error(f"{key!r} holds {max(data)} as a truth value; 0 or 1 is allowed")
    return [byte == 1 for byte in data]
