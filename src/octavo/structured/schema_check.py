"""Whether a JSON schema says only what can be honoured. Names the place of the first thing that
cannot, as a JSON pointer.

Iterative: no schema, however deep, runs it out of stack. Whether a schema can be satisfied is for
the grammar library to say.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from typing import Final, NamedTuple, TypeGuard

from octavo.errors import InvalidRequest

MAX_SCHEMA_DEPTH: Final = 32
"""Schemas within schemas."""
MAX_JSON_DEPTH: Final = 64
TYPES: Final = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})
FORMATS: Final = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri"}
)
_ONE_SCHEMA: Final = frozenset({"additionalProperties", "items"})
_LISTS_OF_SCHEMAS: Final = frozenset({"prefixItems", "anyOf", "oneOf", "allOf"})
_MAPS_OF_SCHEMAS: Final = frozenset({"properties", "patternProperties", "$defs", "definitions"})
_ASSERTIONS: Final = frozenset(
    {
        "$ref",
        "type",
        "enum",
        "const",
        "required",
        "minItems",
        "maxItems",
        "minLength",
        "maxLength",
        "pattern",
        "format",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minProperties",
        "maxProperties",
    }
)
_ANNOTATIONS: Final = frozenset(
    {
        "$schema",
        "$comment",
        "title",
        "description",
        "default",
        "examples",
        "deprecated",
        "readOnly",
        "writeOnly",
        "discriminator",
    }
)
"""These restrict nothing. (`discriminator` repeats what the alternatives beside it say.)"""
_BOUNDS: Final = (
    ("minimum", "maximum"),
    ("exclusiveMinimum", "maximum"),
    ("minimum", "exclusiveMaximum"),
    ("exclusiveMinimum", "exclusiveMaximum"),
    ("minLength", "maxLength"),
    ("minItems", "maxItems"),
    ("minProperties", "maxProperties"),
)
_SUPPORTED: Final = _ONE_SCHEMA | _LISTS_OF_SCHEMAS | _MAPS_OF_SCHEMAS | _ASSERTIONS | _ANNOTATIONS


class Subschema(NamedTuple):
    """`pointer` is "" for the whole."""

    pointer: str
    schema: object


class SchemaError(InvalidRequest):
    """What is wrong, and at which JSON pointer in the schema."""

    def __init__(self, pointer: str, what: str, *, param: str = "structured_outputs.json") -> None:
        super().__init__(f"JSON schema at {pointer or '/'}: {what}", param=param)


def check_schema(root: object) -> None:
    """Raises `SchemaError` for what is no schema or not supported."""
    _check_json_depth(root)
    everything = list(subschemas(root))
    pointers = {one.pointer for one in everything}
    for subschema in everything:
        _check_one(pointers, subschema)


def subschemas(root: object) -> Iterator[Subschema]:
    """The schema and all that are in it, outer ones first. Raises `SchemaError` below 32 levels
    and for what should hold schemas and does not."""
    level = [Subschema("", root)]
    for _ in range(MAX_SCHEMA_DEPTH):
        yield from level
        level = [child for one in level for child in _children(one)]
        if not level:
            return
    raise SchemaError(level[0].pointer, f"more than {MAX_SCHEMA_DEPTH} schemas in each other")


def _children(one: Subschema) -> Iterator[Subschema]:
    schema = one.schema
    if not isinstance(schema, dict):
        return
    for key, value in schema.items():
        pointer = f"{one.pointer}/{escaped(key)}"
        if key in _ONE_SCHEMA:
            yield Subschema(pointer, value)
        elif key in _LISTS_OF_SCHEMAS:
            if not isinstance(value, list):
                raise SchemaError(pointer, "a list of schemas is needed")
            yield from (Subschema(f"{pointer}/{i}", item) for i, item in enumerate(value))
        elif key in _MAPS_OF_SCHEMAS:
            if not isinstance(value, dict):
                raise SchemaError(pointer, "an object of schemas is needed")
            for name, item in value.items():
                yield Subschema(f"{pointer}/{escaped(name)}", item)


def escaped(key: str) -> str:
    """A key as one step of a JSON pointer (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1")


def _check_one(pointers: Set[str], one: Subschema) -> None:
    pointer, schema = one
    if isinstance(schema, bool):
        return
    if not isinstance(schema, dict):
        raise SchemaError(pointer, "a schema is an object, true or false")
    for key in schema:
        if key not in _SUPPORTED:
            raise SchemaError(f"{pointer}/{escaped(key)}", f"{key!r:.60} is not supported")
    _check_type(pointer, schema)
    _check_values(pointer, schema)
    _check_ref(pointers, pointer, schema)


def _check_type(pointer: str, schema: dict[str, object]) -> None:
    if "type" not in schema:
        return
    given = schema["type"]
    names = given if isinstance(given, list) else [given]
    if not names or not all(isinstance(name, str) and name in TYPES for name in names):
        raise SchemaError(
            f"{pointer}/type", f"{given!r:.60} is no type; {', '.join(sorted(TYPES))} are"
        )


def _check_values(pointer: str, schema: dict[str, object]) -> None:
    for low, high in _BOUNDS:
        least, most = schema.get(low), schema.get(high)
        if _is_number(least) and _is_number(most) and least > most:
            raise SchemaError(pointer, f"{low} is {least}, more than {high} {most}")
    enum = schema.get("enum", [None])
    if not isinstance(enum, list) or not enum:
        raise SchemaError(f"{pointer}/enum", "a list of at least one value is needed")
    name = schema.get("format", "date")
    if not isinstance(name, str) or name not in FORMATS:
        raise SchemaError(
            f"{pointer}/format", f"{name!r:.60} is not supported; {', '.join(sorted(FORMATS))} are"
        )


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _check_ref(pointers: Set[str], pointer: str, schema: dict[str, object]) -> None:
    if "$ref" not in schema:
        return
    ref = schema["$ref"]
    if not isinstance(ref, str) or not (ref == "#" or ref.startswith("#/")) or "%" in ref:
        raise SchemaError(f"{pointer}/$ref", f"{ref!r:.60} is not '#' or a JSON pointer after '#'")
    if ref[1:] not in pointers:
        raise SchemaError(f"{pointer}/$ref", f"{ref!r:.60} leads nowhere")


def _check_json_depth(root: object) -> None:
    level = [root]
    for _ in range(MAX_JSON_DEPTH):
        level = [item for value in level for item in _items(value)]
        if not level:
            return
    raise SchemaError("", f"more than {MAX_JSON_DEPTH} objects or lists in each other")


def _items(value: object) -> list[object]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []
