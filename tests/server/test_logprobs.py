from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.core.outputs import TokenLogprobs
from octavo.entrypoints.openai.generation.logprobs import (
    CompletionLogprobsWriter,
    chat_logprobs,
    prompt_logprobs,
)
from octavo.entrypoints.results import LOWEST_LOGPROB
from tests.server.harness import Server, run


class Spelling:
    """Token n is the n-th of a few pieces, some of which are no whole characters."""

    pieces = (b"a", b" b", "é".encode()[:1], "é".encode()[1:], "漢".encode(), b"", b"a")

    def token_bytes(self, token_id: int) -> bytes:
        return self.pieces[token_id]


ENTRY = TokenLogprobs(0, -2.0, 3, [1, 2], [-0.5, -math.inf])


def test_chat_entries_have_bytes_and_no_infinity() -> None:
    (entry,) = chat_logprobs(Spelling(), [ENTRY]).content
    assert (entry.token, entry.logprob, entry.bytes) == ("a", -2.0, [97])
    assert [(top.token, top.logprob) for top in entry.top_logprobs] == [
        (" b", -0.5),
        ("\N{REPLACEMENT CHARACTER}", LOWEST_LOGPROB),
    ]
    assert entry.top_logprobs[1].bytes == ["é".encode()[0]]


def _no_constant(name: str) -> float:
    raise AssertionError(f"{name} is no JSON")


def test_minus_infinity_never_reaches_the_wire(monkeypatch: pytest.MonkeyPatch) -> None:
    """As logits without a number make it: JSON has no word for it, and null would break clients."""
    lowest = TokenLogprobs(97, -math.inf, 1, [98], [-math.inf])
    monkeypatch.setattr("tests.fakes.fake_logprobs", lambda *_: lowest)
    chat = {"messages": [{"role": "user", "content": "x"}], "logprobs": True, "top_logprobs": 1}
    bodies = {
        "/v1/chat/completions": chat,
        "/v1/completions": {"prompt": "xy", "logprobs": 1, "echo": True, "max_tokens": 2},
    }

    async def scenario(server: Server) -> None:
        for path, body in bodies.items():
            whole = (await server.post(path, body)).text
            json.loads(whole, parse_constant=_no_constant)
            assert "-9999.0" in whole
            stream = (await server.post(path, {**body, "stream": True})).text
            for event in stream.split("\n\n")[:-2]:
                json.loads(event.removeprefix("data: "), parse_constant=_no_constant)
            assert "-9999.0" in stream

    run(scenario)


def test_prompt_entries_hold_the_actual_token_and_the_best_ones_by_rank() -> None:
    first, second = prompt_logprobs(Spelling(), [None, ENTRY])
    assert first is None
    assert second is not None
    assert {token_id: entry.rank for token_id, entry in second.items()} == {1: 1, 2: 2, 0: 3}
    assert second[2].logprob == LOWEST_LOGPROB
    assert second[0].decoded_token == "a"


def test_completion_tops_always_hold_the_chosen_token() -> None:
    written = CompletionLogprobsWriter(Spelling()).write([0], [ENTRY])
    assert written.top_logprobs == [
        {" b": -0.5, "\N{REPLACEMENT CHARACTER}": LOWEST_LOGPROB, "a": -2.0}
    ]


def test_of_two_tokens_that_look_alike_the_more_probable_is_kept() -> None:
    entry = TokenLogprobs(6, -3.0, 2, [0, 6], [-1.0, -3.0])
    assert CompletionLogprobsWriter(Spelling()).write([6], [entry]).top_logprobs == [{"a": -1.0}]


@given(st.lists(st.integers(0, 6)), st.integers(0, 10))
def test_offsets_do_not_depend_on_how_the_tokens_come(token_ids: list[int], cut: int) -> None:
    whole = CompletionLogprobsWriter(Spelling()).write(token_ids, [None] * len(token_ids))
    writer = CompletionLogprobsWriter(Spelling())
    pieces = [writer.write(part, [None] * len(part)) for part in (token_ids[:cut], token_ids[cut:])]
    assert [offset for piece in pieces for offset in piece.text_offset] == whole.text_offset
    data = b"".join(map(Spelling().token_bytes, token_ids))
    if data == data.decode("utf-8", errors="ignore").encode():
        for token_id, offset in zip(token_ids, whole.text_offset, strict=True):
            token = Spelling().token_bytes(token_id)
            if token == token.decode("utf-8", errors="ignore").encode():
                assert data.decode()[offset:].encode().startswith(token)
