"""Rules for arguments that are not written as one JSON object: keywords, tags, braces.

What the rules allow, the dialect's parser turns into arguments that obey the tool's schema. Where
that cannot be promised the schema is refused. Schemas come from clients and are not trusted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from octavo.core.tools import Tool
from octavo.errors import UnsupportedParameter
from octavo.parsing.call_style import CallStyle
from octavo.parsing.typed_values import parameter_types, resolve
from octavo.structured.lark_text import LarkSpelling, quoted
from octavo.structured.schema_tree import escaped
from octavo.structured.task import SchemaPart

MAX_DEPTH: Final = 16
MAX_PROPERTIES: Final = 256
_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]{0,127}")
_KEYWORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_ANNOTATIONS: Final = frozenset({"$schema", "title", "description", "default", "examples"})
_OBJECT_WORDS: Final = _ANNOTATIONS | {
    "type",
    "properties",
    "required",
    "additionalProperties",
    "$defs",
    "definitions",
}
_TEXT_WORDS: Final = _ANNOTATIONS | {"type", "enum", "const", "anyOf", "oneOf"}
_TYPE_WORDS: Final = _ANNOTATIONS | {"type"}
_LIST_WORDS: Final = _ANNOTATIONS | {"type", "items"}
_SCALARS: Final = frozenset({"integer", "number", "boolean", "null"})


class _Place(NamedTuple):
    """A schema, its JSON pointer in the tool's, and the rule that stands for it."""

    schema: object
    pointer: str
    name: str


class ArgumentRules:
    """The rule `name` and all that it needs. Raises `UnsupportedParameter`."""

    def __init__(self, name: str, style: CallStyle, tool: Tool, spelling: LarkSpelling) -> None:
        self.name = name
        self.rules: list[str] = []
        self.parts: list[SchemaPart] = []
        self._style = style
        self._tool = tool
        self._spelling = spelling
        self._text = json.dumps(tool.parameters)
        self._add_object(_Place(tool.parameters, "", name), 0)

    def _add_object(self, place: _Place, depth: int) -> None:
        schema = self._resolved(place)
        if depth > MAX_DEPTH:
            raise self._refused(place.pointer, "is nested too deeply")
        if not isinstance(schema, Mapping) or set(schema) - _OBJECT_WORDS:
            raise self._refused(place.pointer, "says more than what properties there are")
        properties = schema.get("properties", {})
        required = schema.get("required", [])
        if not isinstance(properties, Mapping) or not isinstance(required, list):
            raise self._refused(place.pointer, "has properties or required that are none")
        if len(properties) > MAX_PROPERTIES or set(map(str, required)) - set(properties):
            raise self._refused(place.pointer, "has too many properties, or requires others")
        members = [
            (self._member(place, number, (key, value), depth), key in required)
            for number, (key, value) in enumerate(properties.items())
        ]
        separator = {"keywords": ", ", "braces": ","}.get(self._style.arguments, "")
        self.rules += in_order(place.name, members, quoted(separator) if separator else "")

    def _member(self, place: _Place, number: int, item: tuple[str, object], depth: int) -> str:
        """The rule of one argument, given its name and schema."""
        key, schema = item
        pointer = f"{place.pointer}/properties/{escaped(key)}"
        pattern = _KEYWORD if self._style.arguments == "keywords" else _KEY
        if not pattern.fullmatch(key):
            raise self._refused(pointer, "has a name that cannot be written")
        name = f"{place.name}_{number}"
        value = _Place(schema, pointer, f"{name}_value")
        match self._style.arguments:
            case "keywords":
                self.rules.append(f"{name}: {quoted(key + '=')} {self._json(value)}")
            case "tags":
                self.rules.append(f"{name}: {self._tagged(key, value)}")
            case _:
                self.rules.append(f"{name}: {quoted(key + ':')} {self._braced(value, depth)}")
        return name

    def _json(self, place: _Place) -> str:
        self.parts.append(SchemaPart(place.name, self._text, place.pointer, self._tool.place))
        return f"@{place.name}"

    def _tagged(self, key: str, value: _Place) -> str:
        tags, style, word = self._style.tags, self._style, self._spelling.word
        assert tags is not None
        value_open = "\n" + tags.value_open if tags.value_open else ""
        head = f"\n{tags.key_open}{style.quote}{key}{style.quote}{tags.key_end}{value_open}"
        end = style.space + tags.value_close
        types = self._types(value)
        if "string" not in types:
            return f"{word(head + style.space)} {self._json(value)} {word(end)}"
        if (words := self._words(value)) is not None:
            return f"{word(head + style.space)} ({words}) {word(end)}"
        self.rules.append(self._spelling.until(value.name, end))
        return f"{word(head + style.space)} {value.name}"

    def _braced(self, value: _Place, depth: int) -> str:
        types, quote = self._types(value), self._style.quote
        word = self._spelling.word
        if types <= _SCALARS:
            return self._json(value)
        if types == {"string"}:
            if (words := self._words(value)) is not None:
                return f"{word(quote)} ({words}) {word(quote)}"
            self.rules.append(self._spelling.until(value.name, quote))
            return f"{word(quote)} {value.name}"
        if types == {"object"}:
            self._add_object(value, depth + 1)
            return f'"{{" {value.name} "}}"'
        if types == {"array"}:
            return self._braced_list(value, depth + 1)
        raise self._refused(value.pointer, "may be of several types")

    def _braced_list(self, place: _Place, depth: int) -> str:
        schema = self._resolved(place)
        assert isinstance(schema, Mapping)
        if set(schema) - _LIST_WORDS or "items" not in schema or depth > MAX_DEPTH:
            raise self._refused(place.pointer, "says more than what its items are")
        item = _Place(schema["items"], f"{place.pointer}/items", f"{place.name}_item")
        one = self._braced(item, depth)
        self.rules.append(f'{place.name}: "[" ({one} ("," {one})*)? "]"')
        return place.name

    def _types(self, place: _Place) -> frozenset[str]:
        return parameter_types({**self._tool.parameters, "properties": {"x": place.schema}}, "x")

    def _words(self, place: _Place) -> str | None:
        """The texts that a parameter may be, None if it may be any. (Nothing else can be said of a
        text that is written without quotes.)"""
        schema = self._resolved(place)
        if not isinstance(schema, Mapping):
            return None
        if unknown := set(schema) - _TEXT_WORDS:
            raise self._refused(place.pointer, f"has {', '.join(sorted(unknown)):.60}")
        for choices in (schema.get("anyOf", []), schema.get("oneOf", [])):
            if not all(isinstance(one, Mapping) and set(one) <= _TYPE_WORDS for one in choices):
                raise self._refused(place.pointer, "has alternatives that say more than a type")
        values = [schema["const"]] if "const" in schema else schema.get("enum")
        if values is None:
            return None
        if not isinstance(values, list) or not values:
            raise self._refused(place.pointer, "has an empty enum")
        if not all(isinstance(value, str) and value for value in values):
            raise self._refused(place.pointer, "has an enum of more than texts")
        return " | ".join(map(quoted, values))

    def _resolved(self, place: _Place) -> object:
        """The schema itself where it only names another one of the same tool."""
        schema = place.schema
        for _ in range(MAX_DEPTH):
            ref = schema.get("$ref") if isinstance(schema, Mapping) else None
            if not isinstance(ref, str):
                return schema
            schema = resolve(ref, self._tool.parameters)
        raise self._refused(place.pointer, "refers to itself")

    def _refused(self, pointer: str, what: str) -> UnsupportedParameter:
        return UnsupportedParameter(
            f"{self._tool.place} at {pointer or '/'} {what}; the way in which this model writes"
            " calls cannot be held to that, so that only tool_choice 'auto' is possible",
            param=self._tool.place,
        )


def in_order(name: str, members: Sequence[tuple[str, bool]], separator: str) -> list[str]:
    """The rule `name`: the members that must be there, and any of those that may, in their order.
    A member is a rule's name and whether it must be there."""
    if not separator:
        items = " ".join(rule if is_required else f"{rule}?" for rule, is_required in members)
        return [f"{name}: {items or quoted('')}"]
    rules = [f'{name}_first_{len(members)}: ""', f'{name}_next_{len(members)}: ""']
    for number in reversed(range(len(members))):
        rule, is_required = members[number]
        rest = f"{name}_next_{number + 1}"
        skip_first = "" if is_required else f" | {name}_first_{number + 1}"
        skip_next = "" if is_required else f" | {rest}"
        rules.append(f"{name}_first_{number}: {rule} {rest}{skip_first}")
        rules.append(f"{name}_next_{number}: {separator} {rule} {rest}{skip_next}")
    rules.append(f"{name}: {name}_first_0")
    return rules
