"""Typed, range-checked access to a model file's key/value metadata. Knows no file format.

Every function raises `WeightError` that names the key, what the file says and what is allowed;
`file` only serves that message. A key that is absent yields `default`, or an error without one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from octavo.core.packed_texts import PackedTexts
from octavo.errors import WeightError

NumericArray = npt.NDArray[np.generic]
MetadataValue = bool | int | float | str | PackedTexts | NumericArray


def metadata_int(
    meta: Mapping[str, MetadataValue],
    key: str,
    low: int,
    high: int,
    *,
    default: int | None = None,
    file: object = "model metadata",
) -> int:
    """An integer in [low, high]."""
    value = _value(meta, key, default, file)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise _refused(file, key, value, f"an integer from {low} to {high}")
    return value


def metadata_ints(
    meta: Mapping[str, MetadataValue],
    key: str,
    low: int,
    high: int,
    *,
    count: int,
    default: int | None = None,
    file: object = "model metadata",
) -> tuple[int, ...]:
    """`count` integers in [low, high]: an array of that length, or one integer for all."""
    value = _value(meta, key, default, file)
    if not isinstance(value, np.ndarray):
        return (metadata_int(meta, key, low, high, default=default, file=file),) * count
    if not np.issubdtype(value.dtype, np.integer) or value.shape != (count,):
        raise _refused(file, key, value, f"an integer or {count} integers from {low} to {high}")
    numbers = tuple(int(number) for number in value)
    for number in numbers:
        if not low <= number <= high:
            raise _refused(file, key, number, f"integers from {low} to {high}")
    return numbers


def metadata_float(
    meta: Mapping[str, MetadataValue],
    key: str,
    low: float,
    high: float,
    *,
    default: float | None = None,
    file: object = "model metadata",
) -> float:
    """A finite number in [low, high]; an integer counts as one."""
    value = _value(meta, key, default, file)
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not math.isfinite(value)
        or not low <= value <= high
    ):
        raise _refused(file, key, value, f"a finite number from {low} to {high}")
    return float(value)


def metadata_bool(
    meta: Mapping[str, MetadataValue],
    key: str,
    *,
    default: bool | None = None,
    file: object = "model metadata",
) -> bool:
    value = _value(meta, key, default, file)
    if not isinstance(value, bool):
        raise _refused(file, key, value, "true or false")
    return value


def metadata_str(
    meta: Mapping[str, MetadataValue],
    key: str,
    *,
    choices: tuple[str, ...] = (),
    default: str | None = None,
    file: object = "model metadata",
) -> str:
    """A string; one of `choices` when any are given."""
    value = _value(meta, key, default, file)
    if not isinstance(value, str) or (choices and value not in choices):
        raise _refused(file, key, value, f"one of {', '.join(choices)}" if choices else "a string")
    return value


def _value(
    meta: Mapping[str, MetadataValue], key: str, default: MetadataValue | None, file: object
) -> MetadataValue:
    value = meta.get(key, default)
    if value is None:
        raise WeightError(file, f"the key {key} is missing")
    return value


def _refused(file: object, key: str, value: MetadataValue, allowed: str) -> WeightError:
    return WeightError(file, f"{key} is {_short(value)}; {allowed} is allowed")


def _short(value: MetadataValue) -> str:
    """One line, however long or hostile the value is."""
    if isinstance(value, np.ndarray):
        return f"an array of {value.size} {value.dtype} values"
    if isinstance(value, PackedTexts):
        return f"an array of {len(value)} strings"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
