"""Writes `docs/api.md`, with `python -m octavo.entrypoints.openai.api_page`, out of the endpoints.

A table of every endpoint, and of every field of every body: whether it is supported, what it takes,
and how it is refused.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import cast

import msgspec

from octavo.core.ranges import Range
from octavo.entrypoints.openai.bodies.body import EngineBody, RequestBody, Unsupported
from octavo.entrypoints.openai.bodies.decode import neutral_values
from octavo.entrypoints.openai.bodies.field_ranges import FIELD_RANGES
from octavo.entrypoints.openai.bodies.strict_json import Json
from octavo.entrypoints.openai.endpoints import ENDPOINTS
from octavo.entrypoints.openai.generation.request import GenerationRequest
from octavo.entrypoints.openai.schema.endpoint import Endpoint
from octavo.entrypoints.openai.schema.openapi import error_statuses

Schema = dict[str, Json]
_MODULE = re.compile(r"\w+\.")


HEAD = """# The HTTP interface

Made by `python -m octavo.entrypoints.openai.api_page` from the code; do not edit. The same as an
OpenAPI document: `GET /openapi.json` of a running server.

Null means that an optional field is not given. A field that is not listed is unknown: 400, with the
nearest name that is known. A field that is refused is known elsewhere and not supported here: 400
with the code `unsupported_parameter`, unless its value asks for nothing (false, an empty list,
object or text, and what its row names). Errors are `{"error": {"message", "type", "param",
"code"}}`; in a stream they are its last event.
"""


def api_page(endpoints: Sequence[Endpoint]) -> str:
    """The whole page, in Markdown."""
    parts = [HEAD, "## Endpoints\n", _table(_ENDPOINT_HEAD, map(_endpoint_row, endpoints))]
    for title, names in _sections(endpoints):
        parts += [f"## {title}\n", _table(_FIELD_HEAD, names)]
    return "\n".join(parts)


_ENDPOINT_HEAD = ("endpoint", "what it does", "key", "body", "answer", "errors")
_FIELD_HEAD = ("field", "takes", "default")


def _endpoint_row(endpoint: Endpoint) -> tuple[str, ...]:
    answers = []
    if endpoint.answer is not None:
        answers.append(_type_name(endpoint.answer))
    if endpoint.event is not None:
        answers.append(f"events of `{endpoint.event.__name__}`")
    if endpoint.text_type:
        answers.append(endpoint.text_type)
    return (
        f"`{endpoint.method} {endpoint.path}`",
        endpoint.summary,
        "no" if endpoint.is_public else "yes",
        " ".join(_type_name(kind) for kind in (endpoint.request, endpoint.form) if kind),
        " or ".join(answers),
        ", ".join(map(str, error_statuses(endpoint))),
    )


def _type_name(kind: object) -> str:
    if kind is dict:
        return "JSON"
    name = kind.__name__ if isinstance(kind, type) else _MODULE.sub("", str(kind))
    return f"`{name}`"


_SHARED: tuple[tuple[str, type[RequestBody]], ...] = (
    ("Fields of every body", RequestBody),
    ("Further fields of every body that keeps the engine busy", EngineBody),
    ("Further fields of every body that asks for generated text", GenerationRequest),
)
"""What bodies share, each a part of the next."""


def _sections(endpoints: Iterable[Endpoint]) -> Iterator[tuple[str, Iterable[tuple[str, ...]]]]:
    """What bodies share comes first and once; then what each has beyond it."""
    known: frozenset[str] = frozenset()
    for title, kind in _SHARED:
        yield title, _field_rows(kind, known)
        known = frozenset(kind.__struct_fields__)
    kinds = dict.fromkeys(one.request for one in endpoints if one.request is not None)
    for kind in kinds:
        paths = ", ".join(f"`{one.path}`" for one in endpoints if one.request is kind)
        base = [shared for _, shared in _SHARED if issubclass(kind, shared)][-1]
        rows = _field_rows(kind, frozenset(base.__struct_fields__))
        yield f"Further fields of {paths} (`{kind.__name__}`)", rows


def _field_rows(kind: type[RequestBody], known: frozenset[str]) -> Iterator[tuple[str, ...]]:
    for field in msgspec.structs.fields(kind):
        if field.name in known:
            continue
        if field.type == Unsupported:
            yield f"`{field.name}`", _refused(field.name), ""
        else:
            yield f"`{field.name}`", _takes(field), _default(field)


def _refused(name: str) -> str:
    beyond = neutral_values(name)[len(neutral_values("")) :]
    words = " or ".join(map(_code, beyond))
    return f"refused; {words} is taken" if words else "refused"


def _takes(field: msgspec.structs.FieldInfo) -> str:
    words = _type_words(msgspec.json.schema(field.type))
    limits = FIELD_RANGES.get(field.name)
    return f"{words} {_bounds(limits)}" if limits is not None and words in _NUMBERS else words


_NUMBERS = ("integer", "number")
_PLAIN_TYPES = {"string": "text", "boolean": "true, false", "object": "object", "null": "null"}


def _type_words(schema: Schema, structs: Schema | None = None) -> str:
    """What a JSON schema allows, null left out. `structs` are those that it refers to."""
    structs = structs or cast("Schema", schema.get("$defs", {}))
    if "$ref" in schema:
        struct = cast("Schema", structs[str(schema["$ref"]).rpartition("/")[2]])
        return f"object of {', '.join(map(_code, cast('Schema', struct['properties'])))}"
    if "anyOf" in schema:
        parts = [_type_words(part, structs) for part in cast("list[Schema]", schema["anyOf"])]
        return " or ".join(part for part in parts if part != "null")
    if "enum" in schema:
        return ", ".join(map(_code, cast("list[Json]", schema["enum"])))
    kind = str(schema.get("type", "anything"))
    if kind == "array":
        items = _type_words(cast("Schema", schema.get("items", {})), structs)
        return f"list of ({items})" if " " in items else f"list of {items}"
    return _PLAIN_TYPES.get(kind, kind)


def _bounds(limits: Range) -> str:
    if limits.low < -(2**31):
        return "of 64 bits"
    low = f"{'above' if limits.low_open else 'from'} {limits.low:g}"
    return low if limits.high >= 2**31 - 1 else f"{low} to {limits.high:g}"


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return "required"
    return "" if field.default is None else _code(field.default)


def _code(value: object) -> str:
    return f"`{msgspec.json.encode(value).decode() if not isinstance(value, str) else value}`"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    sys.stdout.write(api_page(ENDPOINTS))
