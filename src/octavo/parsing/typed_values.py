"""Turns the text of a parameter into JSON, by the type that the tool's schema gives it.

A parameter that can only be a string is passed on as it comes. Any other is held until it is whole
(or too long to be anything but a string). Schemas come from clients and are not trusted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from octavo.parsing.emitter import Schema
from octavo.parsing.json_text import json_body
from octavo.parsing.reader import Give

MAX_VALUE_CHARS = 65536
MAX_SCHEMA_DEPTH = 8

ANY = frozenset({"string", "integer", "number", "boolean", "null", "object", "array"})
TEXT = frozenset({"string"})
_WORDS = {"true": "true", "false": "false", "null": "null", "none": "null"}


def parameter_types(schema: Schema, name: str) -> frozenset[str]:
    """The JSON types that the parameter may have; all if the schema says nothing about it."""
    properties = schema.get("properties")
    declared = properties.get(name) if isinstance(properties, Mapping) else None
    return _types(declared, schema, MAX_SCHEMA_DEPTH) or ANY


def _types(declared: object, root: Schema, depth: int) -> frozenset[str]:
    if not isinstance(declared, Mapping) or depth == 0:
        return ANY
    if isinstance(named := declared.get("type"), str):
        return frozenset({named}) & ANY
    if isinstance(named, list):
        return frozenset(item for item in named if isinstance(item, str)) & ANY
    if isinstance(reference := declared.get("$ref"), str):
        return _types(resolve(reference, root), root, depth - 1)
    for key in ("anyOf", "oneOf"):
        if isinstance(choices := declared.get(key), list) and choices:
            return frozenset().union(*(_types(choice, root, depth - 1) for choice in choices[:32]))
    if isinstance(values := declared.get("enum"), list):
        return frozenset(_type_of(value) for value in values)
    return frozenset({_type_of(declared["const"])}) if "const" in declared else ANY


def resolve(reference: str, root: Schema) -> object:
    """What a local JSON pointer names, or None."""
    found: object = root
    for part in reference.removeprefix("#").split("/")[1:]:
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def _type_of(value: object) -> str:
    if value is None:
        return "null"
    kinds: Iterable[tuple[type, str]] = (
        (bool, "boolean"), (int, "integer"), (float, "number"), (str, "string"), (list, "array"),
    )  # fmt: skip
    return next((name for kind, name in kinds if isinstance(value, kind)), "object")


def value_json(text: str, types: frozenset[str]) -> str:
    """The JSON of a whole parameter: the first type of the schema that its text fits, the string
    last; a string too where it fits none."""
    stripped = text.strip()
    word = _WORDS.get(stripped.lower())
    if word and ("null" if word == "null" else "boolean") in types:
        return word
    if types - {"string", "null", "boolean"}:
        try:
            value: object = json.loads(stripped, parse_constant=_refuse, parse_int=_keep)
        except (ValueError, RecursionError):
            return f'"{json_body(text)}"'
        if _fits(value, types):
            return stripped
    return f'"{json_body(text)}"'


class _Integer(str):
    """The digits of an integer, which may be too long to convert."""


def _keep(digits: str) -> object:
    return _Integer(digits)


def _refuse(constant: str) -> object:
    raise ValueError(constant)


def _fits(value: object, types: frozenset[str]) -> bool:
    if isinstance(value, _Integer):
        return bool(types & {"integer", "number"})
    if isinstance(value, float):
        return bool(types & {"integer", "number"})
    return _type_of(value) in types - {"string"}


class TypedValue:
    """One parameter as it comes; its JSON goes to `give`."""

    def __init__(self, types: frozenset[str], give: Give) -> None:
        self._types = types
        self._give = give
        self._held: list[str] = []
        self._num_held = 0
        self._is_text = types == TEXT
        if self._is_text:
            give('"')

    def add(self, text: str) -> None:
        if self._is_text:
            self._give(json_body(text))
            return
        self._held.append(text)
        self._num_held += len(text)
        if self._num_held > MAX_VALUE_CHARS:
            self._is_text = True
            self._give('"' + json_body("".join(self._held)))
            self._held.clear()

    def close(self) -> None:
        self._give('"' if self._is_text else value_json("".join(self._held), self._types))
