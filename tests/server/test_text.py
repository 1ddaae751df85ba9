"""What text a client sees, streamed and whole (B1 to B4), on chosen tokens."""

from __future__ import annotations

from collections.abc import Collection

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes import BYTE_VOCAB, ByteDetokenizer, ByteTokenizer
from tests.server.harness import Json, Server, Setup, choice_texts, finish_reasons, run

PARIS = BYTE_VOCAB + 2


class PieceDetokenizer(ByteDetokenizer):
    def push(self, token_id: int) -> str:
        return " Paris" if token_id == PARIS else super().push(token_id)


class PieceTokenizer(ByteTokenizer):
    """Bytes, and one token of several characters."""

    vocab_size = PARIS + 1

    def token_bytes(self, token_id: int) -> bytes:
        return b" Paris" if token_id == PARIS else super().token_bytes(token_id)

    def detokenizer(
        self,
        *,
        skip_special_tokens: bool,
        preceding_id: int | None = None,  # noqa: ARG002  (pieces mean the same after anything)
        shown_ids: Collection[int] = (),
    ) -> PieceDetokenizer:
        return PieceDetokenizer(skip_special_tokens=skip_special_tokens, shown_ids=shown_ids)


def _answers(answer: list[int], **fields: Json) -> list[tuple[str, str, int | str | None]]:
    """(text, finish_reason, stop_reason) of the same request: whole and streamed."""
    found = []

    async def scenario(server: Server) -> None:
        body = {"prompt": "q", "max_tokens": 50, **fields}
        whole = (await server.post("/v1/completions", body)).json()["choices"][0]
        events = await server.events("/v1/completions", body)
        last = next(e["choices"][0] for e in events[:-1] if e["choices"][0]["finish_reason"])
        (text,), ((reason,),) = choice_texts(events), finish_reasons(events)
        assert events[-1] == "[DONE]"
        found.append((whole["text"], whole["finish_reason"], whole["stop_reason"]))
        found.append((text, reason, last["stop_reason"]))

    run(scenario, Setup(scripts={b"q": answer}, tokenizer=PieceTokenizer()))
    return found


def _both(answer: list[int], **fields: Json) -> tuple[str, str, int | str | None]:
    whole, streamed = _answers(answer, **fields)
    assert whole == streamed
    return whole


def test_b1_a_stop_string_longer_than_any_token_is_never_sent() -> None:
    expected = ("ABC", "stop", "DEFGHIJ")
    assert _both(list(b"ABCDEFGHIJKLM"), stop="DEFGHIJ") == expected


def test_b1_text_held_for_a_stop_string_comes_when_the_match_fails() -> None:
    assert _both(list(b"ABCDEFGxDEF"), stop="DEFGHIJ") == ("ABCDEFGxDEF", "stop", None)


def test_b1_the_stop_string_is_sent_when_asked_for() -> None:
    text = _both(list(b"ABCDEFGHIJKLM"), stop=["DEF"], include_stop_str_in_output=True)
    assert text == ("ABCDEF", "stop", "DEF")


def test_b2_a_stop_string_matches_inside_a_token() -> None:
    assert _both([*b"in", PARIS, *b"!"], stop="Pari") == ("in ", "stop", "Pari")


def test_b3_characters_are_never_cut() -> None:
    text = "a\N{GRINNING FACE}漢字é"
    assert _both(list(text.encode())) == (text, "stop", None)


def test_b4_an_invalid_byte_is_one_replacement_character() -> None:
    assert _both([*b"a", 0xFF, *b"b"]) == ("a\N{REPLACEMENT CHARACTER}b", "stop", None)


def test_b4_an_answer_may_end_inside_a_character() -> None:
    half = "\N{GRINNING FACE}".encode()[:2]
    assert _both([*b"a", *half]) == ("a\N{REPLACEMENT CHARACTER}", "stop", None)
    length = _both([*b"a", *half, *b"bcd"], max_tokens=3)
    assert length == ("a\N{REPLACEMENT CHARACTER}", "length", None)


def test_a_stop_token_is_named_and_not_shown() -> None:
    assert _both(list(b"ABC"), stop_token_ids=[66]) == ("A", "stop", 66)


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.integers(0, 255), min_size=1, max_size=30),
    st.lists(st.text("ab\N{REPLACEMENT CHARACTER}", min_size=1, max_size=2), max_size=2),
)
def test_a_stream_says_what_the_whole_answer_says(answer: list[int], stops: list[str]) -> None:
    text, _, stop = _both(answer, stop=stops)
    if stop is None:
        assert text == bytes(answer).decode("utf-8", errors="replace")
    else:
        assert not any(other in text for other in stops)


@pytest.mark.parametrize("fields", [{"n": 3}, {"logprobs": 0}, {"echo": True}, {"seed": 5}])
def test_streams_equal_whole_answers_on_hashed_tokens(fields: Json) -> None:
    async def scenario(server: Server) -> None:
        body = {"prompt": "any", "max_tokens": 20, "seed": 1, **fields}
        whole = (await server.post("/v1/completions", body)).json()
        events = await server.events("/v1/completions", body)
        num_choices = len(whole["choices"])
        assert choice_texts(events, num_choices) == [c["text"] for c in whole["choices"]]

    run(scenario)
