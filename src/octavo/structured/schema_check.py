"""Whether a JSON schema says only what can be honoured. Names the place of the first thing that
cannot, as a JSON pointer.

Iterative: no schema, however deep, runs it out of stack. Whether a schema can be satisfied is for
the grammar library to say.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Final
from urllib.parse import unquote

from octavo.structured.keyword_values import check_values
from octavo.structured.schema_tree import (
    LISTS_OF_SCHEMAS,
    MAPS_OF_SCHEMAS,
    ONE_SCHEMA,
    SchemaError,
    Subschema,
    escaped,
    subschemas,
)

MAX_JSON_DEPTH: Final = 64
TYPES: Final = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})
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
_SUPPORTED: Final = ONE_SCHEMA | LISTS_OF_SCHEMAS | MAPS_OF_SCHEMAS | _ASSERTIONS | _ANNOTATIONS


def check_schema(root: object) -> None:
    """Raises `SchemaError` for what is no schema or not supported."""
    _check_json_depth(root)
    everything = list(subschemas(root))
    pointers = {one.pointer for one in everything}
    for subschema in everything:
        _check_one(pointers, subschema)


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
    check_values(pointer, schema)
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


def _check_ref(pointers: Set[str], pointer: str, schema: dict[str, object]) -> None:
    if "$ref" not in schema:
        return
    ref = schema["$ref"]
    if not isinstance(ref, str) or not (ref == "#" or ref.startswith("#/")):
        raise SchemaError(f"{pointer}/$ref", f"{ref!r:.60} is not '#' or a JSON pointer after '#'")
    if unquote(ref[1:]) not in pointers:
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
