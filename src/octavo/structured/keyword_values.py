"""Whether the values of a schema's keywords are of the right kind, and such that they can be kept.

Looks at one schema at a time, without those that are in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, TypeGuard

from octavo.structured.schema_tree import SchemaError, SchemaObject, escaped

FORMATS: Final = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri"}
)
MAX_EXACT: Final = 2**53
"""The grammar library computes with doubles: beyond it, it would write other numbers."""
_COUNTS: Final = (
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
)
_NUMBERS: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_BOUNDS: Final = (
    ("minimum", "maximum"),
    ("exclusiveMinimum", "maximum"),
    ("minimum", "exclusiveMaximum"),
    ("exclusiveMinimum", "exclusiveMaximum"),
    ("minLength", "maxLength"),
    ("minItems", "maxItems"),
    ("minProperties", "maxProperties"),
)
_CONTROL: Final = re.compile(r"[\x00-\x07\x0b\x0e-\x1f]")
"""What JSON writes as `\\u....` only."""
_CLASS: Final = re.compile(r"\\.|\[\^?((?:\\.|[^\]\\])*)\]", re.DOTALL)
_SET_NOTATION: Final = re.compile(r"\\.|(\[|&&|--|~~)", re.DOTALL)
_TEXT_ENDS: Final = re.compile(r"\\([Az])|\\.", re.DOTALL)


def check_values(pointer: str, schema: SchemaObject) -> None:
    """Raises `SchemaError`."""
    _check_counts(pointer, schema)
    _check_numbers(pointer, schema)
    for low, high in _BOUNDS:
        least, most = schema.get(low), schema.get(high)
        if _is_number(least) and _is_number(most) and least > most:
            raise SchemaError(pointer, f"{low} is {least}, more than {high} {most}")
    _check_literals(pointer, schema)
    _check_format(pointer, schema)
    _check_patterns(pointer, schema)
    _check_required(pointer, schema)


def _check_counts(pointer: str, schema: SchemaObject) -> None:
    for key in _COUNTS:
        value = schema.get(key, 0)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_EXACT:
            raise SchemaError(f"{pointer}/{key}", f"{value!r:.60} is no integer from 0 to 2^53")


def _check_numbers(pointer: str, schema: SchemaObject) -> None:
    for key in _NUMBERS:
        value = schema.get(key, 1)
        if not _is_number(value):
            raise SchemaError(f"{pointer}/{key}", f"{value!r:.60} is no number")
        if not _is_exact(value):
            raise SchemaError(f"{pointer}/{key}", f"{value!r:.60} is beyond 2^53")
        if key == "multipleOf" and value <= 0:
            raise SchemaError(f"{pointer}/{key}", f"{value} is not above 0")


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_exact(value: int | float) -> bool:
    return isinstance(value, float) or abs(value) <= MAX_EXACT


def _check_literals(pointer: str, schema: SchemaObject) -> None:
    enum = schema.get("enum", [None])
    if not isinstance(enum, list) or not enum:
        raise SchemaError(f"{pointer}/enum", "a list of at least one value is needed")
    for place, value in _leaves(pointer, {"enum": enum, "const": schema.get("const")}):
        if _is_number(value) and not _is_exact(value):
            raise SchemaError(place, f"{value!r:.60} is beyond 2^53")
        if isinstance(value, str) and _CONTROL.search(value):
            raise SchemaError(place, f"{value!r:.60} has a control character")


def _leaves(pointer: str, value: object) -> Iterator[tuple[str, object]]:
    """All values in a value that hold no others, and keys of objects, with their places."""
    if isinstance(value, dict):
        for key, item in value.items():
            place = f"{pointer}/{escaped(key)}"
            yield place, key
            yield from _leaves(place, item)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _leaves(f"{pointer}/{number}", item)
    else:
        yield pointer, value


def _check_format(pointer: str, schema: SchemaObject) -> None:
    name = schema.get("format", "date")
    if not isinstance(name, str) or name not in FORMATS:
        raise SchemaError(
            f"{pointer}/format", f"{name!r:.60} is not supported; {', '.join(sorted(FORMATS))} are"
        )


def _check_patterns(pointer: str, schema: SchemaObject) -> None:
    if "pattern" in schema:
        _check_pattern(f"{pointer}/pattern", schema["pattern"])
    by_pattern = schema.get("patternProperties", {})
    assert isinstance(by_pattern, dict)
    for pattern in by_pattern:
        _check_pattern(f"{pointer}/patternProperties/{escaped(pattern)}", pattern)


def _check_pattern(pointer: str, pattern: object) -> None:
    """Refuses what means one thing to the grammar library and another in ECMA-262."""
    if not isinstance(pattern, str):
        raise SchemaError(pointer, f"{pattern!r:.60} is no string")
    for found in _CLASS.finditer(pattern):
        inside = found[1] or ""
        unclear = [one[1] for one in _SET_NOTATION.finditer(inside) if one[1]]
        if unclear:
            raise SchemaError(pointer, f"{unclear[0]!r} in a class must be escaped")
    if ends := [one[1] for one in _TEXT_ENDS.finditer(pattern) if one[1]]:
        raise SchemaError(pointer, rf"\{ends[0]} is not supported; ^ and $ are")


def _check_required(pointer: str, schema: SchemaObject) -> None:
    required = schema.get("required", [])
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        raise SchemaError(f"{pointer}/required", "a list of strings is needed")
    least = schema.get("minProperties", 0)
    assert isinstance(least, int)
    if least > len(set(required)) + 1:
        raise SchemaError(
            f"{pointer}/minProperties",
            f"{least} properties cannot be promised where {len(set(required))} are required: other"
            " names may be written twice",
        )
