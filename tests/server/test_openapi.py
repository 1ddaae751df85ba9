"""The OpenAPI document says what the server does: routes, their key, their fields and errors."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import pytest
from starlette.routing import Route

from octavo.config.server import ServerConfig
from octavo.core.ranges import Range
from octavo.core.sampling_params import RANGES
from octavo.entrypoints.openai.api_page import api_page
from octavo.entrypoints.openai.bodies.body import EngineBody
from octavo.entrypoints.openai.bodies.decode import unsupported_fields
from octavo.entrypoints.openai.completions.request import CompletionRequest
from octavo.entrypoints.openai.endpoints import ENDPOINTS
from octavo.entrypoints.openai.schema.endpoint import Endpoint
from octavo.entrypoints.openai.schema.openapi import error_statuses, openapi_document
from tests.server.harness import Json, Server, Setup, run

DOCUMENT: Json = json.loads(json.dumps(openapi_document(ENDPOINTS)))


def _allows(name: str, body: Json) -> bool:
    schema = {"$ref": f"#/components/schemas/{name}", "components": DOCUMENT["components"]}
    return bool(jsonschema.Draft202012Validator(schema).is_valid(body))


def test_every_route_is_in_it_and_names_its_key() -> None:
    options = ServerConfig(api_key=("right",))

    async def scenario(server: Server) -> None:
        shown = await server.http.get("/openapi.json", headers={"Authorization": "Bearer right"})
        assert shown.json() == DOCUMENT
        num_operations = 0
        for route in server.app.routes:
            assert isinstance(route, Route)
            for method in route.methods or ():
                num_operations += 1
                path = re.sub(r":\w+}", "}", route.path)
                operation = DOCUMENT["paths"][path][method.lower()]
                is_open = (await server.http.request(method, route.path)).status_code != 401
                assert operation["security"] == ([] if is_open else [{"key": []}])
        assert num_operations == sum(map(len, DOCUMENT["paths"].values()))

    run(scenario, Setup(options=options))


def test_every_schema_is_one_and_every_reference_leads_somewhere() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    for schema in schemas.values():
        jsonschema.Draft202012Validator.check_schema(schema)
    for name in re.findall(r'"#/components/schemas/(\w+)"', json.dumps(DOCUMENT)):
        assert name in schemas


def test_operation_ids_differ() -> None:
    names = [
        operation["operationId"]
        for methods in DOCUMENT["paths"].values()
        for operation in methods.values()
    ]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda one: one.path)
def test_only_what_keeps_the_engine_busy_may_be_refused_for_want_of_room(
    endpoint: Endpoint,
) -> None:
    is_busy = endpoint.request is not None and issubclass(endpoint.request, EngineBody)
    assert (503 in error_statuses(endpoint)) == (is_busy or endpoint.path in ("/health", "/ping"))
    is_counted = endpoint.path in ("/tokenize", "/detokenize")
    assert (429 in error_statuses(endpoint)) == (is_busy or is_counted)


@pytest.mark.parametrize("limits", RANGES, ids=lambda one: one.name)
def test_ranges_are_in_it(limits: Range) -> None:
    name, low, high, low_open = limits
    assert _allows("CompletionRequest", {"prompt": "a", name: high})
    assert not _allows("CompletionRequest", {"prompt": "a", name: high + 1})
    assert _allows("CompletionRequest", {"prompt": "a", name: low}) == (not low_open)
    assert not _allows("CompletionRequest", {"prompt": "a", name: low - 1})
    assert _allows("CompletionRequest", {"prompt": "a", name: None})


def test_fields_that_are_not_supported_take_what_asks_for_nothing() -> None:
    for name in unsupported_fields(CompletionRequest):
        assert _allows("CompletionRequest", {"prompt": "a", name: None})
        assert _allows("CompletionRequest", {"prompt": "a", name: False})
        assert not _allows("CompletionRequest", {"prompt": "a", name: {"x": 1}})


def test_unknown_fields_and_missing_ones_are_not_allowed() -> None:
    assert not _allows("CompletionRequest", {"prompt": "a", "x": 1})
    assert not _allows("CompletionRequest", {})
    assert not _allows("ChatRequest", {"messages": None})


def test_the_page_of_the_documents_is_up_to_date() -> None:
    page = Path(__file__).parents[2] / "docs" / "api.md"
    assert page.read_text() == api_page(ENDPOINTS), (
        "python -m octavo.entrypoints.openai.api_page > docs/api.md"
    )
