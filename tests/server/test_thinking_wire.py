"""Reasoning whose marks are tokens: its length is bounded and counted."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from octavo.tokenization.spellings import Spellings
from tests.fakes import BYTE_VOCAB, EOS, SPECIAL_TEXTS, ByteDetokenizer
from tests.server.harness import ChatByteTokenizer, Json, Server, Setup, error_of, run

PATH = "/v1/chat/completions"
BEGIN, END = BYTE_VOCAB + 2, BYTE_VOCAB + 3
MARKS = {BEGIN: "<think>", END: "</think>"}
TEMPLATE = (
    "{% for m in messages %}{{ m.content }}{% endfor %}</s>"
    "{% if enable_thinking %}<think>{% endif %}{% if false %}</think>{% endif %}"
)


class ThinkingDetokenizer(ByteDetokenizer):
    def push(self, token_id: int) -> str:
        return MARKS.get(token_id) or super().push(token_id)


class ThinkingTokenizer(ChatByteTokenizer):
    """Bytes, and two marks that are no control tokens, as in Qwen 3."""

    vocab_size = BYTE_VOCAB + 4
    markers = Spellings({text: one for one, text in (SPECIAL_TEXTS | MARKS).items()})

    def token_bytes(self, token_id: int) -> bytes:
        return MARKS.get(token_id, "").encode() or super().token_bytes(token_id)

    def is_special(self, token_id: int) -> bool:
        return token_id not in MARKS and super().is_special(token_id)

    def detokenizer(
        self,
        *,
        skip_special_tokens: bool,
        preceding_id: int | None = None,  # noqa: ARG002  (bytes mean the same after anything)
        shown_ids: Collection[int] = (),
    ) -> ThinkingDetokenizer:
        return ThinkingDetokenizer(skip_special_tokens=skip_special_tokens, shown_ids=shown_ids)


def _setup(script: list[int], *, is_open: bool) -> Setup:
    """An answer that goes on with the script, whatever was appended to it."""
    prompt = (*b"hi", EOS, *([BEGIN] if is_open else []))
    return Setup(scripts={prompt: script}, template=TEMPLATE, tokenizer=ThinkingTokenizer())


def _body(*, is_open: bool, **fields: Json) -> Json:
    return {
        "messages": [{"role": "user", "content": "hi"}],
        "chat_template_kwargs": {"enable_thinking": is_open},
        **fields,
    }


def _answer(script: list[int], *, is_open: bool, **fields: Json) -> tuple[str, str, int, int]:
    """(reasoning, content, reasoning tokens, all tokens), whole and streamed alike."""
    found: list[tuple[str, str, int, int]] = []

    async def scenario(server: Server) -> None:
        body = _body(is_open=is_open, **fields)
        answer = (await server.post(PATH, body)).json()
        message, usage = answer["choices"][0]["message"], answer["usage"]
        options = {"include_usage": True}
        *chunks, last, _ = await server.events(PATH, body | {"stream_options": options})
        assert {**last["usage"], "prompt_tokens_details": usage["prompt_tokens_details"]} == usage
        deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
        assert "".join(delta.get("content", "") for delta in deltas) == message["content"]
        found.append(
            (
                message.get("reasoning", ""),
                message["content"],
                usage["completion_tokens_details"]["reasoning_tokens"],
                usage["completion_tokens"],
            )
        )

    run(scenario, _setup(script, is_open=is_open))
    return found[0]


THOUGHT = [*b"abcdef", END, *b"yes"]


@pytest.mark.parametrize("budget", [6, 7, 100, None])
def test_reasoning_within_its_budget_is_counted_and_let_be(budget: int | None) -> None:
    fields = {} if budget is None else {"thinking_token_budget": budget}
    assert _answer(THOUGHT, is_open=True, **fields) == ("abcdef", "yes", 6, 11)
    begun = [BEGIN, *THOUGHT]
    assert _answer(begun, is_open=False, **fields) == ("abcdef", "yes", 6, 12)


@pytest.mark.parametrize("budget", [1, 3, 5])
def test_reasoning_beyond_its_budget_is_ended(budget: int) -> None:
    """The fake model goes on with what its script has at the next place."""
    reasoning, content, num_reasoning, _ = _answer(
        [*b"abcdefghij"], is_open=True, thinking_token_budget=budget
    )
    assert (reasoning, num_reasoning) == ("abcdefghij"[:budget], budget)
    assert content == "abcdefghij"[budget + 1 :]
    begun = _answer([BEGIN, *b"abcdefghij"], is_open=False, thinking_token_budget=budget)
    assert begun[:3] == (reasoning, content, budget)


def test_no_budget_at_all_means_no_reasoning() -> None:
    prompt = (*b"hi", EOS, BEGIN, END)

    async def scenario(server: Server) -> None:
        answer = (await server.post(PATH, _body(is_open=True, thinking_token_budget=0))).json()
        assert answer["choices"][0]["message"]["content"] == "yes"
        assert answer["usage"]["completion_tokens_details"] == {"reasoning_tokens": 0}

    setup = Setup(scripts={prompt: list(b"yes")}, template=TEMPLATE, tokenizer=ThinkingTokenizer())
    run(scenario, setup)


def test_an_answer_without_reasoning_is_not_ended() -> None:
    script = [*b"abc", BEGIN, *b"def"]
    answer = _answer(script, is_open=False, thinking_token_budget=2)
    assert answer == ("", "abc<think>def", 0, 8)


@pytest.mark.parametrize(
    "fields", [{"thinking_token_budget": -1}, {"thinking_token_budget": 1, "logprobs": True}]
)
def test_budgets_that_cannot_be_kept(fields: Json) -> None:
    async def scenario(server: Server) -> None:
        error = error_of(await server.post(PATH, _body(is_open=True, **fields)))
        assert error["param"] == "thinking_token_budget"

    run(scenario, _setup([], is_open=True))


def test_a_model_that_marks_nothing_takes_no_budget() -> None:
    async def scenario(server: Server) -> None:
        body = {"messages": [{"role": "user", "content": "a"}], "thinking_token_budget": 5}
        assert error_of(await server.post(PATH, body))["code"] == "unsupported_parameter"

    run(scenario)
