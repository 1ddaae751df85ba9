"""2,000 requests made from the OpenAPI document harm nobody, and all answers keep to it (D1).

NUL characters and all of Unicode included; well formed, and not. After each operation the canary.
A third of all is answered by the model, half of that in streams, whose events keep to it, too.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from schemathesis import Case, GenerationMode, Response
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from octavo.config.server import ServerConfig
from octavo.entrypoints.openai.endpoints import ENDPOINTS
from octavo.entrypoints.openai.intake.admission import TIMEOUT_HEADER
from octavo.entrypoints.openai.schema.endpoint import Endpoint
from octavo.entrypoints.openai.schema.openapi import openapi_document
from tests.server.harness import Server, Setup
from tests.server.test_real_socket import serve

SCHEMA = schemathesis.openapi.from_dict(openapi_document(ENDPOINTS))
CHECKS = [status_code_conformance, content_type_conformance, response_schema_conformance]
OVERLOAD = (503, 504)
"""Documented: a deadline that the client gave cannot be met."""

NUM_CASES = 2000
SHARES = {
    "/v1/chat/completions": 12,
    "/v1/completions": 8,
    "/v1/responses": 8,
    "/v1/messages": 8,
    "/v1/embeddings": 6,
    "/tokenize": 2,
}
"""Of operations that take more cases than others, in whole parts."""
ANSWERING = ("/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages")
"""Each with a stream and without."""
MIN_ANSWERED = 0.65
"""Of the cases of an operation of these, and of embeddings, so many are answered with 200."""
MIN_STREAMED, MAX_STREAMED = 0.2, 0.8
"""Of the answered ones of an operation of these."""
MAX_EXTRAS = 3
REFUSED_FIELDS = ("model", "previous_response_id", "timeout")
"""Whatever stands in them, hardly any request has an answer."""
TIMEOUT_SECONDS = 300
GOOD_PROMPTS: dict[str, Any] = {
    "messages": [{"role": "user", "content": "hi"}],
    "prompt": "hi",
    "input": "hi",
}
"""What is answered, where a body needs such a field."""
SOON = {"max_tokens": 3, "max_output_tokens": 3}
"""Where a body may have such a field."""


def _num_cases(endpoint: Endpoint) -> int:
    shares = {one: SHARES.get(one.path, 1) for one in ENDPOINTS}
    return -(-NUM_CASES * shares[endpoint] // sum(shares.values()))


def _is_answering(endpoint: Endpoint) -> bool:
    return endpoint.method == "POST" and endpoint.path in (*ANSWERING, "/v1/embeddings")


def _cases(endpoint: Endpoint) -> st.SearchStrategy[Case[Any]]:
    """As the document says, against it, and such as are answered."""
    operation = SCHEMA[endpoint.path.replace(":path", "")][endpoint.method]
    good = operation.as_strategy(GenerationMode.POSITIVE)
    kinds = [good]
    if endpoint.request is not None or endpoint.query or "{" in endpoint.path:
        kinds.append(operation.as_strategy(GenerationMode.NEGATIVE))
    if endpoint.request is not None:
        answerable = _answerable(endpoint, good)
        kinds = [answerable] * (10 if _is_answering(endpoint) else 1) + kinds
    return st.sampled_from(kinds).flatmap(lambda kind: kind)


@st.composite
def _answerable(draw: st.DrawFn, endpoint: Endpoint, good: st.SearchStrategy[Case[Any]]) -> Any:
    """One that the document allows, with a prompt that is answered. Where answers are wanted, a few
    of its other fields only: among many some two do not go together."""
    case = draw(good)
    if endpoint.request is None or not isinstance(case.body, dict):
        return case
    fields = msgspec.structs.fields(endpoint.request)
    needed = {field.encode_name for field in fields if field.required}
    known = {field.encode_name for field in fields}
    good_fields = {name: value for name, value in GOOD_PROMPTS.items() if name in needed}
    good_fields |= {name: value for name, value in SOON.items() if name in known}
    case.headers.pop(TIMEOUT_HEADER, None)
    extras = sorted(case.body.keys() - good_fields.keys() - {*REFUSED_FIELDS})
    if _is_answering(endpoint):
        extras = draw(st.permutations(extras))[: draw(st.integers(0, MAX_EXTRAS))]
    case.body = good_fields | {name: case.body[name] for name in extras}
    if endpoint.event is not None:
        case.body["stream"] = draw(st.integers(0, 1023)) % 2 == 1  # booleans are mostly false
    return case


class Tally:
    """What came of the cases of one operation."""

    def __init__(self) -> None:
        self.num_cases = self.num_answered = self.num_streamed = 0

    def add(self, response: Response) -> None:
        self.num_cases += 1
        self.num_answered += response.status_code == 200
        self.num_streamed += response.status_code == 200 and _is_stream(response)


class EventExam:
    """That a stream is one of the events that the document says it is of."""

    def __init__(self, endpoint: Endpoint) -> None:
        assert endpoint.event is not None
        self._has_end_mark = endpoint.has_end_mark
        self._event, self._error = map(self._validator, (endpoint.event, endpoint.error))

    @staticmethod
    def _validator(kind: type) -> Draft202012Validator:
        components = SCHEMA.raw_schema["components"]
        assert kind.__name__ in components["schemas"]
        reference = f"#/components/schemas/{kind.__name__}"
        return Draft202012Validator({"$ref": reference, "components": components})

    def check(self, text: str) -> None:
        blocks = text.split("\n\n")
        assert blocks.pop() == "", "the last event has an end"
        events = [self._data(block) for block in blocks if not block.startswith(":")]
        ends_with_error = json.loads(events[-1]).get("error") if events[-1] != "[DONE]" else None
        if ends_with_error:
            self._error.validate(json.loads(events.pop()))
        elif self._has_end_mark:
            assert events.pop() == "[DONE]"
        assert events or ends_with_error
        for event in events:
            self._event.validate(json.loads(event))

    def _data(self, block: str) -> str:
        fields = dict(line.split(": ", 1) for line in block.split("\n"))
        if not self._has_end_mark:  # these protocols name their events
            assert fields.pop("event") == json.loads(fields["data"])["type"]
        assert fields.keys() == {"data"}
        return fields["data"]


def _is_stream(response: Response) -> bool:
    media_types = response.headers.get("content-type", [])  # none with an empty body
    return any(media_type.startswith("text/event-stream") for media_type in media_types)


def _examine(endpoint: Endpoint, url: str) -> Tally:
    session = requests.Session()
    tally = Tally()
    exam = EventExam(endpoint) if endpoint.event is not None else None

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
        tally.add(response)
        if exam is not None and response.status_code == 200 and _is_stream(response):
            exam.check(response.text)

    with session:
        examine()
    return tally


def _check_shares(endpoint: Endpoint, tally: Tally) -> None:
    """That the requests reached what they are about."""
    assert tally.num_answered >= MIN_ANSWERED * tally.num_cases
    if endpoint.path in ANSWERING:
        least, most = (share * tally.num_answered for share in (MIN_STREAMED, MAX_STREAMED))
        assert least <= tally.num_streamed <= most


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda one: f"{one.method} {one.path}")
def test_requests_of_all_kinds_are_answered_as_documented(
    endpoint: Endpoint, tmp_path: Path
) -> None:
    async def scenario(server: Server, url: str) -> None:
        tally = await asyncio.to_thread(_examine, endpoint, url)
        if _is_answering(endpoint):
            _check_shares(endpoint, tally)
        await server.check_canary()

    options = ServerConfig(batch_dir=str(tmp_path / "batches"))
    serve(scenario, Setup(options=options, num_pages=2048), timeout_seconds=TIMEOUT_SECONDS)


def test_there_are_enough_of_them_and_a_third_is_answered_at_length() -> None:
    assert sum(map(_num_cases, ENDPOINTS)) >= NUM_CASES
    answered = sum(MIN_ANSWERED * _num_cases(one) for one in ENDPOINTS if _is_answering(one))
    assert answered >= NUM_CASES / 3
