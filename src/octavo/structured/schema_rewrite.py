"""Schemas as the grammar library is given them, so that it means by them what JSON Schema means.

For schemas that have been checked.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote, unquote

from octavo.structured.schema_tree import SchemaObject, rewritten

ALLOWED_ESCAPES: Final = '"\\bfnrt'
r"""Of strings in JSON, after a backslash. Not `u`: with it a name that has rules could be written
so that the library does not know it (`\u0061` for `a`)."""
_LEAP_YEAR: Final = r"(\d{2}(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)"
_DATE: Final = (
    r"^(\d{4}-((0[1-9]|1[0-2])-(0[1-9]|1\d|2[0-8])|(0[13-9]|1[0-2])-(29|30)|(0[13578]|1[02])-31)"
    rf"|{_LEAP_YEAR}-02-29)"
)
_NOT_YEAR_0: Final = r"^(\d{3}[1-9]|\d{2}[1-9]0|\d[1-9]00|[1-9]000)"
_EMAIL_LENGTHS: Final = r"^[^@]{1,64}@(\[.*|[^.@]{1,63}(\.[^.@]{1,63})*)$"
_STRICTER: Final[dict[object, tuple[SchemaObject, ...]]] = {
    "date": ({"pattern": _DATE}, {"pattern": _NOT_YEAR_0}),
    "date-time": ({"pattern": _DATE}, {"pattern": _NOT_YEAR_0}, {"pattern": "^.{17}[0-5]"}),
    "time": ({"pattern": "^.{6}[0-5]"},),
    "hostname": ({"maxLength": 253},),
    "email": ({"pattern": _EMAIL_LENGTHS}, {"maxLength": 254}),
}
"""What the library's formats leave open: 29 February, leap seconds (of which most are none), and
lengths (RFC 1123, RFC 5321)."""


def for_library(schema: object) -> object:
    """The same schema in the library's terms."""
    whole = rewritten(schema, _in_its_terms)
    return {"allOf": [whole]} if isinstance(whole, bool) else whole


def moved(root: object) -> object:
    """The schema as it is when it stands at /$defs/root."""
    return rewritten(root, _with_ref_below_root)


def pointed(moved_root: object, pointer: str) -> object:
    """A schema that stands for what is at `pointer` of one that was `moved`."""
    return {"$defs": {"root": moved_root}, "$ref": f"#/$defs/root{pointer}"}


def _in_its_terms(schema: SchemaObject) -> SchemaObject:
    ref, stricter = schema.get("$ref"), _STRICTER.get(schema.get("format"))
    if isinstance(ref, str):
        schema["$ref"] = "#" + quote(unquote(ref[1:]))
    if stricter is not None:
        others = schema.get("allOf", [])
        assert isinstance(others, list)
        schema["allOf"] = [*others, *stricter]
    return schema


def _with_ref_below_root(schema: SchemaObject) -> SchemaObject:
    ref = schema.get("$ref")
    if isinstance(ref, str):
        schema["$ref"] = "#/$defs/root" + ref[1:]
    return schema
