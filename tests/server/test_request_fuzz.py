"""Bodies made of anything: they are decoded, or refused with a declared error (D2).

`corpus/bodies.json` keeps those that are hard in some way; [character, count] stands for a run.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from octavo.config.request_limits import RequestLimits
from octavo.entrypoints.openai.bodies.body import RequestBody
from octavo.entrypoints.openai.bodies.decode import decode_request
from octavo.entrypoints.openai.bodies.limits import check_limits
from octavo.entrypoints.openai.chat.params import chat_params
from octavo.entrypoints.openai.chat.request import ChatRequest
from octavo.entrypoints.openai.completions.params import completion_params
from octavo.entrypoints.openai.completions.request import CompletionRequest
from octavo.entrypoints.openai.endpoints import ENDPOINTS
from octavo.errors import RequestError
from tests.server.harness import Json

CORPUS = Path(__file__).parent / "corpus" / "bodies.json"
BODIES = [
    (one if isinstance(one, str) else one[0] * one[1]).encode("latin-1")
    for one in json.loads(CORPUS.read_text())
]
KINDS = list(dict.fromkeys(one.request for one in ENDPOINTS if one.request is not None))
NAMES = sorted({name for kind in KINDS for name in kind.__struct_fields__})

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["auto", "none", "required", "json_object", "user", "left", 2**63, 1e308]),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.one_of(st.text(max_size=4), st.sampled_from(NAMES)), inner, max_size=3),
    ),
    max_leaves=6,
)


def _outcome(body: bytes, kind: type[RequestBody]) -> RequestBody | None:
    """None if it is refused, in few words; anything else that is raised is a finding."""
    try:
        request = decode_request(body, kind)
        check_limits(request, RequestLimits())
        if isinstance(request, ChatRequest):
            chat_params(request)
        if isinstance(request, CompletionRequest):
            completion_params(request)
    except RequestError as error:
        refusal = error
    else:
        return request
    assert refusal.status == 400
    assert 0 < len(refusal.message) < 2000
    return None


@settings(max_examples=400)
@given(
    kind=st.sampled_from(KINDS), fields=st.dictionaries(st.sampled_from(NAMES), values, max_size=6)
)
def test_bodies_of_known_fields_are_taken_or_refused(kind: type[RequestBody], fields: Json) -> None:
    _outcome(json.dumps(fields).encode(), kind)


@settings(max_examples=200)
@given(kind=st.sampled_from(KINDS), body=st.sampled_from(BODIES), data=st.data())
def test_bodies_of_the_corpus_with_bytes_changed(
    kind: type[RequestBody], body: bytes, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(body)))
    put = data.draw(st.binary(max_size=4))
    _outcome(body[:at] + put + body[at + data.draw(st.integers(0, 2)) :], kind)


@pytest.mark.parametrize("body", BODIES, ids=range(len(BODIES)))
def test_the_bodies_of_the_corpus(body: bytes) -> None:
    for kind in KINDS:
        _outcome(body, kind)
