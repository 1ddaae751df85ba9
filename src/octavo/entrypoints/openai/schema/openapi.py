"""The OpenAPI 3.1 document of the server, made from its endpoints and their structs.

Schemas are those of msgspec, with what the decoder allows beyond types: null for every optional
field, and of an unsupported field only what asks for nothing. Knows no route.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from http import HTTPStatus

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from octavo import __version__
from octavo.core.ranges import Range
from octavo.entrypoints.openai.bodies.body import EngineBody, RequestBody
from octavo.entrypoints.openai.bodies.decode import neutral_values, unsupported_fields
from octavo.entrypoints.openai.bodies.field_ranges import FIELD_RANGES
from octavo.entrypoints.openai.bodies.strict_json import Json
from octavo.entrypoints.openai.intake.admission import TIMEOUT_HEADER
from octavo.entrypoints.openai.schema.endpoint import Endpoint

Schema = dict[str, Json]

REFERENCE = "#/components/schemas/{name}"
_PATH_FIELD = re.compile(r"\{(\w+)(?::\w+)?\}")
_ODD = re.compile("[^a-z0-9]+")

_ALWAYS = (400, 403, 431, 500)
"""Any request may be refused for its headers, or meet a fault."""
_WITH_KEY = (401,)
_WITH_BODY = (404, 408, 413)
_GENERATING = (429, 503, 504)


class ApiDocument:
    """The document of `endpoints`, made when it is first asked for."""

    def __init__(self, endpoints: Sequence[Endpoint]) -> None:
        self._endpoints = endpoints

    @cached_property
    def encoded(self) -> bytes:
        return msgspec.json.encode(openapi_document(self._endpoints))


async def show_document(request: Request) -> Response:
    document: ApiDocument = request.app.state.document
    return Response(document.encoded, media_type="application/json")


def openapi_document(endpoints: Iterable[Endpoint]) -> Schema:
    endpoints = list(endpoints)
    kinds = list(dict.fromkeys(kind for one in endpoints for kind in _kinds(one)))
    references, schemas = msgspec.json.schema_components(kinds, ref_template=REFERENCE)
    for kind, reference in zip(kinds, references, strict=True):
        if isinstance(kind, type) and issubclass(kind, RequestBody):
            schema = schemas[str(reference["$ref"]).rpartition("/")[2]]
            schema["properties"] = _request_fields(kind, schema)
    describe = _Describer(dict(zip(kinds, references, strict=True)))
    paths: dict[str, Schema] = {}
    for endpoint in endpoints:
        path = _PATH_FIELD.sub(r"{\1}", endpoint.path)
        paths.setdefault(path, {})[endpoint.method.lower()] = describe.operation(endpoint)
    return {
        "openapi": "3.1.0",
        "info": {"title": "octavo", "version": __version__},
        "paths": dict(paths),
        "components": {
            "schemas": schemas,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _kinds(endpoint: Endpoint) -> Iterable[object]:
    named = (endpoint.error, endpoint.request, endpoint.form, endpoint.answer, endpoint.event)
    return (kind for kind in named if kind is not None)


def error_statuses(endpoint: Endpoint) -> list[int]:
    """Every status that an answer may have beside 200."""
    statuses = {*_ALWAYS, *endpoint.statuses}
    if not endpoint.is_public:
        statuses.update(_WITH_KEY)
    if endpoint.request is not None:
        statuses.update(_WITH_BODY)
        if issubclass(endpoint.request, EngineBody):
            statuses.update(_GENERATING)
    return sorted(statuses)


_EVENT: Schema = {
    "type": "object",
    "properties": {"event": {"type": "string"}, "data": {"type": "string"}},
}
"""Of a stream, each: that it has a name is up to the protocol."""


class _Describer:
    """Knows what a schema is called."""

    def __init__(self, references: Mapping[object, Schema]) -> None:
        self._references = references

    def operation(self, endpoint: Endpoint) -> Schema:
        answers: Schema = {"200": {"description": "Success.", "content": self._answer(endpoint)}}
        for status in error_statuses(endpoint):
            answers[str(status)] = {
                "description": HTTPStatus(status).phrase,
                "content": {"application/json": {"schema": self._references[endpoint.error]}},
            }
        operation: Schema = {
            "summary": endpoint.summary,
            "operationId": f"{endpoint.method.lower()}{_ODD.sub('_', endpoint.path)}",
            "security": [] if endpoint.is_public else [{"key": []}],
            "parameters": list(_parameters(endpoint)),
            "responses": answers,
        }
        for kind, media_type in (
            (endpoint.request, "application/json"),
            (endpoint.form, "multipart/form-data"),
        ):
            if kind is not None:
                content: Schema = {media_type: {"schema": self._references[kind]}}
                operation["requestBody"] = {"required": True, "content": content}
        return operation

    def _answer(self, endpoint: Endpoint) -> Schema:
        content: Schema = {}
        if endpoint.text_type:
            content[endpoint.text_type] = {"schema": {"type": "string"}}
        if endpoint.answer is not None:
            content["application/json"] = {"schema": self._references[endpoint.answer]}
        if endpoint.event is not None:
            events = f"Each event's data is a {endpoint.event.__name__}"
            events += ", the last one [DONE]." if endpoint.has_end_mark else "."
            content["text/event-stream"] = {"schema": {**_EVENT, "description": events}}
        return content


def _parameters(endpoint: Endpoint) -> Iterable[Schema]:
    for name in _PATH_FIELD.findall(endpoint.path):
        yield {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
    for name, kind in endpoint.query:
        schema = msgspec.json.schema(kind)
        yield {"name": name, "in": "query", "required": False, "schema": schema}
    if endpoint.request is not None and issubclass(endpoint.request, EngineBody):
        seconds = _in_range({"type": "number"}, FIELD_RANGES["timeout"])
        yield {"name": TIMEOUT_HEADER, "in": "header", "required": False, "schema": seconds}


def _request_fields(kind: type[RequestBody], schema: Schema) -> Schema:
    fields: Schema = {}
    required = schema.get("required", [])
    properties = schema["properties"]
    assert isinstance(required, list)
    assert isinstance(properties, dict)
    for name, field in properties.items():
        assert isinstance(field, dict)
        if name in unsupported_fields(kind):
            allowed = [None, *neutral_values(name)]
            fields[name] = {"enum": allowed, "description": "Not supported."}
        elif name in required:
            fields[name] = field
        else:
            fields[name] = _or_null(_in_range(field, FIELD_RANGES.get(name)))
    return fields


def _in_range(field: Schema, limits: Range | None) -> Schema:
    """With the bounds that are checked after decoding."""
    if limits is None:
        return field
    bounds: Schema = {"exclusiveMinimum" if limits.low_open else "minimum": limits.low}
    bounds["maximum"] = limits.high
    branches = field.get("anyOf")
    if not isinstance(branches, list):
        return {**field, **bounds}
    numeric = ("integer", "number")
    return {
        **field,
        "anyOf": [
            {**one, **bounds} if isinstance(one, dict) and one.get("type") in numeric else one
            for one in branches
        ],
    }


def _or_null(field: Schema) -> Schema:
    branches = field.get("anyOf", [])
    assert isinstance(branches, list)
    if field.get("type") == "null" or {"type": "null"} in branches:
        return field
    default = {"default": field["default"]} if "default" in field else {}
    bare = {name: value for name, value in field.items() if name != "default"}
    return {"anyOf": [bare, {"type": "null"}], **default}
