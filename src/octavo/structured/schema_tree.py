"""A JSON schema as a tree of schemas: walking it, copying it, and naming the places in it.

Knows which keywords hold schemas and nothing of what they mean. Walks are iterative: no schema,
however deep, runs one out of stack. Copies are of what has been walked before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from octavo.core.structured_outputs import MAX_SCHEMA_DEPTH
from octavo.errors import InvalidRequest

ONE_SCHEMA: Final = frozenset({"additionalProperties", "items"})
LISTS_OF_SCHEMAS: Final = frozenset({"prefixItems", "anyOf", "oneOf", "allOf"})
MAPS_OF_SCHEMAS: Final = frozenset({"properties", "patternProperties", "$defs", "definitions"})

SchemaObject = dict[str, object]


class Subschema(NamedTuple):
    """`pointer` is "" for the whole."""

    pointer: str
    schema: object


class SchemaError(InvalidRequest):
    """What is wrong, and at which JSON pointer in the schema."""

    def __init__(self, pointer: str, what: str, *, param: str = "structured_outputs.json") -> None:
        super().__init__(f"JSON schema at {pointer or '/'}: {what}", param=param)


def subschemas(root: object, max_depth: int = MAX_SCHEMA_DEPTH) -> Iterator[Subschema]:
    """The schema and all that are in it, outer ones first. Raises `SchemaError` below `max_depth`
    levels and for what should hold schemas and does not."""
    level = [Subschema("", root)]
    for _ in range(max_depth):
        yield from level
        level = [child for one in level for child in _children(one)]
        if not level:
            return
    raise SchemaError(level[0].pointer, f"more than {max_depth} schemas in each other")


def _children(one: Subschema) -> Iterator[Subschema]:
    schema = one.schema
    if not isinstance(schema, dict):
        return
    for key, value in schema.items():
        pointer = f"{one.pointer}/{escaped(key)}"
        if key in ONE_SCHEMA:
            yield Subschema(pointer, value)
        elif key in LISTS_OF_SCHEMAS:
            if not isinstance(value, list):
                raise SchemaError(pointer, "a list of schemas is needed")
            yield from (Subschema(f"{pointer}/{i}", item) for i, item in enumerate(value))
        elif key in MAPS_OF_SCHEMAS:
            if not isinstance(value, dict):
                raise SchemaError(pointer, "an object of schemas is needed")
            for name, item in value.items():
                yield Subschema(f"{pointer}/{escaped(name)}", item)


def rewritten(schema: object, change: Callable[[SchemaObject], SchemaObject]) -> object:
    """A copy in which each schema that is an object is what `change` makes of its copy, inner ones
    first. Values that are no schemas (`const`, `default`, ...) are left alone."""
    if not isinstance(schema, dict):
        return schema
    copy: SchemaObject = dict(schema)
    for key, value in schema.items():
        if key in ONE_SCHEMA:
            copy[key] = rewritten(value, change)
        elif key in LISTS_OF_SCHEMAS:
            copy[key] = [rewritten(item, change) for item in value]
        elif key in MAPS_OF_SCHEMAS:
            copy[key] = {name: rewritten(item, change) for name, item in value.items()}
    return change(copy)


def escaped(key: str) -> str:
    """A key as one step of a JSON pointer (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1")
