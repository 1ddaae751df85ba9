"""2,000 requests made from the OpenAPI document harm nobody, and all answers keep to it (D1).

NUL characters and all of Unicode included; well formed, and not. After each operation the canary.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import Case, GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from octavo.config.server import ServerConfig
from octavo.entrypoints.openai.endpoints import ENDPOINTS
from octavo.entrypoints.openai.schema.endpoint import Endpoint
from octavo.entrypoints.openai.schema.openapi import openapi_document
from tests.server.harness import Server, Setup
from tests.server.test_real_socket import serve

SCHEMA = schemathesis.openapi.from_dict(openapi_document(ENDPOINTS))
CHECKS = [status_code_conformance, content_type_conformance, response_schema_conformance]
OVERLOAD = (503, 504)
"""Documented: a deadline that the client gave cannot be met."""

NUM_CASES = 2000
SHARES = {"/v1/chat/completions": 5, "/v1/completions": 4, "/tokenize": 2}
"""Of operations that take more cases than others."""
TIMEOUT_SECONDS = 300
GOOD_PROMPTS: dict[str, Any] = {
    "messages": [{"role": "user", "content": "hi"}],
    "prompt": "hi",
    "input": "hi",
}


def _num_cases(endpoint: Endpoint) -> int:
    shares = {one: SHARES.get(one.path, 1) for one in ENDPOINTS}
    return -(-NUM_CASES * shares[endpoint] // sum(shares.values()))


def _cases(endpoint: Endpoint) -> st.SearchStrategy[Case[Any]]:
    """Half of them as the document says, and of these again half with a prompt that is answered."""
    path = endpoint.path.replace(":path", "")
    operation = SCHEMA[path][endpoint.method]
    good = operation.as_strategy(GenerationMode.POSITIVE)
    kinds = [good]
    if endpoint.request is not None or endpoint.query or "{" in path:
        kinds.append(operation.as_strategy(GenerationMode.NEGATIVE))
    if endpoint.request is not None:
        kinds.insert(0, good.map(_answerable))
    return st.one_of(kinds)


def _answerable(case: Case[Any]) -> Case[Any]:
    if isinstance(case.body, dict):
        for name in GOOD_PROMPTS.keys() & case.body.keys():
            if case.body[name] is not None:
                case.body[name] = GOOD_PROMPTS[name]
        case.body.pop("model", None)
        case.body["max_tokens"] = 3
        case.body.pop("timeout", None)
    return case


def _examine(endpoint: Endpoint, url: str) -> None:
    session = requests.Session()

    @settings(
        max_examples=_num_cases(endpoint),
        phases=(Phase.generate,),
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=_cases(endpoint))
    def examine(case: Case[Any]) -> None:
        response = case.call(base_url=url, session=session, timeout=10)
        assert response.status_code < 500 or response.status_code in OVERLOAD, (
            case.as_curl_command()
        )
        case.validate_response(response, checks=CHECKS)

    with session:
        examine()


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda one: f"{one.method} {one.path}")
def test_requests_of_all_kinds_are_answered_as_documented(
    endpoint: Endpoint, tmp_path: Path
) -> None:
    async def scenario(server: Server, url: str) -> None:
        await asyncio.to_thread(_examine, endpoint, url)
        await server.check_canary()

    options = ServerConfig(batch_dir=str(tmp_path / "batches"))
    serve(scenario, Setup(options=options, num_pages=2048), timeout_seconds=TIMEOUT_SECONDS)


def test_there_are_enough_of_them() -> None:
    assert sum(map(_num_cases, ENDPOINTS)) >= NUM_CASES
