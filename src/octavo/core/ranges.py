"""Checks that a wish lies in its range. Knows no wish: the caller names it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from octavo.errors import InvalidRequest

MAX_TOKEN_IDS = 1024


def check_integer(name: str, value: object, low: int, high: int) -> None:
    """Raises `InvalidRequest`."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise InvalidRequest(
            f"{name} is {value!r}; an integer from {low} to {high} is allowed",
            param=name.partition("[")[0],
        )


def check_real(
    name: str, value: object, low: float, high: float, *, low_open: bool = False
) -> None:
    """Raises `InvalidRequest`, for NaN and infinities too."""
    ok = (
        not isinstance(value, bool)
        and isinstance(value, int | float)
        and math.isfinite(value)
        and low <= value <= high
        and not (low_open and value == low)
    )
    if not ok:
        bounds = f"above {low} and up to {high}" if low_open else f"from {low} to {high}"
        raise InvalidRequest(
            f"{name} is {value!r}; a finite number {bounds} is allowed",
            param=name.partition("[")[0],
        )


class Range(NamedTuple):
    """The values that a wish may have: from `low`, itself not if `low_open`, to `high`."""

    name: str
    low: float
    high: float
    low_open: bool = False

    def check(self, value: object) -> None:
        """Raises `InvalidRequest`. Bounds that are integers are those of one."""
        if isinstance(self.low, int) and isinstance(self.high, int):
            check_integer(self.name, value, self.low, self.high)
        else:
            check_real(self.name, value, self.low, self.high, low_open=self.low_open)


def check_ids(name: str, values: Sequence[object] | None, most: int = MAX_TOKEN_IDS) -> None:
    """Token ids, as far as one can say without a vocabulary. Raises `InvalidRequest`."""
    if values is None:
        return
    if len(values) > most:
        raise InvalidRequest(
            f"{name} has {len(values)} ids; at most {most} are allowed", param=name
        )
    for value in values:
        check_integer(name, value, 0, 2**31 - 1)


def check_texts(name: str, texts: Sequence[object], most: int, most_chars: int) -> None:
    """Texts that are not empty. Raises `InvalidRequest`."""
    if len(texts) > most:
        raise InvalidRequest(
            f"{name} has {len(texts)} texts; at most {most} are allowed", param=name
        )
    for text in texts:
        if not isinstance(text, str) or not 1 <= len(text) <= most_chars:
            raise InvalidRequest(
                f"{name} has {str(text)[:40]!r}; texts of 1 to {most_chars} characters are allowed",
                param=name,
            )
