"""What the schema check lets through, and how it names what it does not."""

from __future__ import annotations

import pytest

from octavo.core.structured_outputs import MAX_SCHEMA_DEPTH
from octavo.structured.schema_check import MAX_JSON_DEPTH, check_schema
from octavo.structured.schema_tree import SchemaError


def nested(key: str, levels: int) -> object:
    schema: object = {"type": "string"}
    for _ in range(levels):
        schema = {key: schema}
    return schema


@pytest.mark.parametrize(
    "schema",
    [
        True,
        {},
        {"type": ["string", "null"], "title": "t", "default": {"nullable": 1}},
        {"properties": {"nullable": {"type": "integer"}, "a/b": {"$ref": "#/$defs/x~1y"}},
         "$defs": {"x/y": {"const": {"not": 1}}}},
        {"$ref": "#"},
        {"anyOf": [{"type": "string", "format": "date"}, {"enum": [{"if": 1}]}]},
        {"oneOf": [{"const": "a"}], "discriminator": {"propertyName": "kind"}},
        nested("items", MAX_SCHEMA_DEPTH - 1),
    ],
)  # fmt: skip
def test_what_is_supported_passes(schema: object) -> None:
    check_schema(schema)


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (3, "at /: a schema is an object"),
        ({"not": {}}, "at /not: 'not' is not supported"),
        ({"nullable": True}, "at /nullable: 'nullable' is not supported"),
        ({"x-guidance": {"lenient": True}}, "at /x-guidance"),
        ({"items": [{}]}, "at /items: a schema is an object"),
        ({"properties": {"a/b~": {"uniqueItems": True}}}, "at /properties/a~1b~0/uniqueItems"),
        ({"anyOf": [{}, {"type": "foo"}]}, "at /anyOf/1/type: 'foo' is no type"),
        ({"type": []}, "at /type"),
        ({"type": [["string"]]}, "at /type"),
        ({"allOf": {}}, "at /allOf: a list of schemas is needed"),
        ({"properties": []}, "at /properties: an object of schemas is needed"),
        ({"patternProperties": {"^a": {"enum": []}}}, r"at /patternProperties/\^a/enum"),
        ({"enum": "a"}, "at /enum"),
        ({"format": "regex"}, "at /format: 'regex' is not supported"),
        ({"$ref": "#/$defs/x"}, r"at /\$ref: '#/\$defs/x' leads nowhere"),
        ({"$ref": "http://example.org/a"}, r"at /\$ref"),
        ({"$ref": "#/const", "const": {}}, "leads nowhere"),
        ({"items": {"minLength": 4, "maxLength": 3}}, "at /items: minLength is 4, more than"),
        ({"exclusiveMinimum": 4.5, "maximum": 3}, "at /: exclusiveMinimum is 4.5, more than"),
        (nested("items", MAX_SCHEMA_DEPTH), "more than 32 schemas in each other"),
        ({"default": nested("a", MAX_JSON_DEPTH)}, "more than 64 objects or lists"),
    ],
)
def test_the_place_of_what_is_not_supported_is_named(schema: object, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        check_schema(schema)


def test_a_schema_of_any_depth_is_refused_without_running_out_of_stack() -> None:
    with pytest.raises(SchemaError, match="more than"):
        check_schema(nested("items", 100_000))
