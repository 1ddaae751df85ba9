"""Reads JSON from strangers, and refuses what parsers read differently or cannot bear.

Duplicate keys, NaN and infinities, huge integers, deep nesting and lone surrogates. Knows no HTTP
and no field names.
"""

from __future__ import annotations

import json
import math
import re

from octavo.errors import InvalidRequest

MAX_DEPTH = 64
MAX_INTEGER_DIGITS = 20

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]

_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_ALL_BUT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_ONE_KIND = bytes.maketrans(b"{}", b"[]")


def parse_json(body: bytes, max_depth: int = MAX_DEPTH) -> Json:
    """The value of one UTF-8 JSON text. Raises `InvalidRequest` saying what and where."""
    _check_depth(body, max_depth)
    try:
        value: Json = _DECODER.decode(body.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"the body is not UTF-8: byte {error.start} is malformed") from None
    except json.JSONDecodeError as error:
        raise InvalidRequest(f"the body is not JSON: {error.msg} at byte {error.pos}") from None
    if rb"\ud" in body or rb"\uD" in body:
        _check_surrogates(value)
    return value


def _check_depth(body: bytes, max_depth: int) -> None:
    """Before parsing, as parsers recurse. Takes the innermost brackets away, level by level.

    What is left is too deep, or unbalanced: the parser may complain of that, if it is short.
    """
    if body.count(b"[") + body.count(b"{") <= max_depth:
        return
    brackets = _STRING.sub(b"", body).translate(_ONE_KIND, _ALL_BUT_BRACKETS)
    for _ in range(max_depth):
        brackets = brackets.replace(b"[]", b"")
    if len(brackets) > max_depth or b"[]" in brackets:
        raise InvalidRequest(f"the body is nested deeper than {max_depth} levels")


def _check_surrogates(value: Json) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise InvalidRequest("the body holds half of a UTF-16 surrogate pair") from None


def _object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    result = dict(pairs)
    if len(result) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise InvalidRequest(
            f"the key {twice[:64]!r} is given twice in one object", param=twice[:64]
        )
    return result


def _integer(digits: str) -> int:
    if len(digits.lstrip("-")) > MAX_INTEGER_DIGITS:
        raise InvalidRequest(f"an integer has more than {MAX_INTEGER_DIGITS} digits")
    return int(digits)


def _real(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise InvalidRequest(f"the number {digits[:32]} is out of range")
    return value


def _constant(word: str) -> float:
    raise InvalidRequest(f"{word} is not JSON; only finite numbers are allowed")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer, parse_float=_real, parse_constant=_constant
)
