"""Fields beyond OpenAI's: prompts cut and continued, ids in answers, fewer events, other names."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from octavo.errors import StopFailed
from octavo.structured.stop_regex import StopRegexes
from tests.fakes import BOS, EOS, ByteTokenizer
from tests.server.harness import (
    CONTEXT,
    TEMPLATE,
    ChatByteTokenizer,
    Json,
    Server,
    Setup,
    choice_texts,
    error_of,
    finish_reasons,
    run,
)

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
SWITCHED = (
    "{% for m in messages %}[{{ m.role }}]{{ m.content | trim }}{% endfor %}"
    "{% for d in documents or [] %}({{ d.title }}){% endfor %}"
    "{% if mood %}<{{ mood }}>{% endif %}{% if add_generation_prompt %}[assistant]{% endif %}"
)
HELLO = Setup(scripts={b"[user]hi[assistant]": list(b"Hello"), b"hi": list(b"Hello")})


def _user(text: str) -> Json:
    return {"role": "user", "content": text}


async def _prompt_ids(server: Server, path: str, **fields: Json) -> list[int]:
    """The ids that the engine is given."""
    answer = await server.post(path, {"max_tokens": 1, "return_token_ids": True, **fields})
    assert answer.status_code == 200, answer.text
    body = answer.json()
    holder = body if path == CHAT else body["choices"][0]
    ids: list[int] = holder["prompt_token_ids"]
    return ids


def _bytes(ids: Sequence[int]) -> bytes:
    return bytes(id_ for id_ in ids if id_ < BOS)


class GapTokenizer(ChatByteTokenizer):
    fim_token_ids = (250, 251, 252)


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
@pytest.mark.parametrize("side", ["left", "right", None])
def test_a_prompt_is_cut_to_so_many_tokens(path: str, side: str | None) -> None:
    asked: Json = {"messages": [_user("0123456789")]} if path == CHAT else {"prompt": "0123456789"}

    async def scenario(server: Server) -> None:
        whole = await _prompt_ids(server, path, **asked)
        cut = await _prompt_ids(
            server, path, **asked, truncate_prompt_tokens=5, truncation_side=side
        )
        expected = whole[:5] if side == "right" else [BOS, *whole[-4:]]
        assert cut == expected
        same = await _prompt_ids(server, path, **asked, truncate_prompt_tokens=len(whole))
        assert same == whole

    run(scenario)


def test_a_prompt_is_cut_to_what_fits_beside_the_answer() -> None:
    async def scenario(server: Server) -> None:
        prompt = "x" * (CONTEXT + 100)
        answer = await server.complete(prompt, max_tokens=12, truncate_prompt_tokens=-1, echo=True)
        usage = answer.json()["usage"]
        assert usage["prompt_tokens"] == CONTEXT - 12
        assert answer.json()["choices"][0]["text"].startswith("<s>" + "x" * (CONTEXT - 13))
        ids = list(b"y" * (CONTEXT + 5))
        answer = await server.complete(ids, max_tokens=2, truncate_prompt_tokens=-1)
        assert answer.json()["usage"]["prompt_tokens"] == CONTEXT - 2
        assert error_of(await server.complete(prompt, max_tokens=12))["param"] == "prompt"
        for bad in (0, -2, CONTEXT + 1):
            error = error_of(await server.complete("a", truncate_prompt_tokens=bad))
            assert error["param"] == "truncate_prompt_tokens"
        error = error_of(await server.complete("a", truncation_side="middle"))
        assert "'left' or 'right' is allowed" in error["message"]

    run(scenario, Setup(num_pages=1024))


def test_an_answer_goes_on_with_the_last_message() -> None:
    messages = [_user("hi"), {"role": "assistant", "content": "Hel "}]

    async def scenario(server: Server) -> None:
        ids = await _prompt_ids(server, CHAT, messages=messages, continue_final_message=True)
        assert _bytes(ids) == b"[user]hi[assistant]Hel "
        parts = [_user("hi"), {"role": "assistant", "content": [{"type": "text", "text": "Hel "}]}]
        ids = await _prompt_ids(server, CHAT, messages=parts, continue_final_message=True)
        assert _bytes(ids) == b"[user]hi[assistant]Hel "
        body = {"messages": messages, "continue_final_message": True}
        counted = await server.post("/tokenize", body)
        assert counted.json()["tokens"] == ids
        both = {**body, "add_generation_prompt": True}
        assert error_of(await server.post(CHAT, both))["param"] == "continue_final_message"
        empty = {**body, "messages": [_user("hi"), {"role": "assistant", "content": ""}]}
        assert error_of(await server.post(CHAT, empty))["param"] == "messages"

    run(scenario, Setup(template=SWITCHED))


def test_a_template_that_hides_the_last_message_cannot_continue_it() -> None:
    async def scenario(server: Server) -> None:
        body = {"messages": [_user("hi")], "continue_final_message": True}
        error = error_of(await server.post(CHAT, body))
        assert error["param"] == "continue_final_message"

    run(scenario, Setup(template="{{ messages[0].role }}"))


@pytest.mark.parametrize("stream", [False, True])
def test_an_echo_gives_the_continued_text_back(stream: bool) -> None:
    said = [_user("hi"), {"role": "assistant", "content": "Hel"}]
    body = {"messages": said, "continue_final_message": True, "echo": True, "max_tokens": 4}
    setup = Setup(scripts={b"[user]hi[assistant]Hel": list(b"lo")})

    async def scenario(server: Server) -> None:
        if stream:
            (text,) = choice_texts(await server.events(CHAT, body))
        else:
            text = (await server.post(CHAT, body)).json()["choices"][0]["message"]["content"]
        assert text == "Hello"

    run(scenario, setup)


def test_special_tokens_of_a_chat_can_be_left_to_the_template() -> None:
    async def scenario(server: Server) -> None:
        for given, expected in (({}, [BOS]), ({"add_special_tokens": False}, [])):
            ids = await _prompt_ids(server, CHAT, messages=[_user("a")], **given)
            assert ids == [*expected, *b"[user]a[assistant]"]

    run(scenario)


def test_documents_and_switches_reach_the_template() -> None:
    async def scenario(server: Server) -> None:
        ids = await _prompt_ids(
            server,
            CHAT,
            messages=[_user("a")],
            documents=[{"title": "T</s>"}],
            chat_template_kwargs={"mood": "calm</s>"},
        )
        assert _bytes(ids) == b"[user]a(T</s>)<calm</s>>[assistant]"
        assert EOS not in ids

    run(scenario, Setup(template=SWITCHED))


@pytest.mark.parametrize(
    ("switches", "says"),
    [
        ({"tokenize": True}, "asks for: mood"),
        ({"chat_template": "{{ x }}"}, "'chat_template'"),
        ({"messages": []}, "'messages'"),
        ({"tools": [1]}, "'tools'"),
        ({"bos_token": "x"}, "'bos_token'"),
        ({"__class__": 1}, "'__class__'"),
        ({"mood": ["a"]}, "a list or an object"),
        ({"mood": {"a": 1}}, "a list or an object"),
        ({"mood": "x" * 1025}, "1025 characters"),
        ({f"x{i}": False for i in range(33)}, "33 entries"),
    ],
)
def test_other_switches_are_refused_by_name(switches: Json, says: str) -> None:
    async def scenario(server: Server) -> None:
        for path in (CHAT, "/tokenize"):
            body = {"messages": [_user("a")], "chat_template_kwargs": switches}
            error = error_of(await server.post(path, body))
            assert error["param"] == "chat_template_kwargs"
            assert says in error["message"]

    run(scenario, Setup(template=SWITCHED))


def test_a_switch_that_a_template_does_not_know_may_be_off() -> None:
    async def scenario(server: Server) -> None:
        for off in (False, None):
            switches = {"enable_thinking": off, "mood": "x" * 100}
            answer = await server.chat("a", max_tokens=1, chat_template_kwargs=switches)
            assert answer.status_code == 200, answer.text
        error = error_of(await server.chat("a", documents=[{"title": "a"}]), 400)
        assert (error["param"], error["code"]) == ("documents", "unsupported_parameter")

    run(scenario, Setup(template=SWITCHED.replace("documents or []", "[]")))


def test_ids_come_with_whole_answers() -> None:
    async def scenario(server: Server) -> None:
        chat = (await server.chat("hi", return_token_ids=True, n=2)).json()
        assert chat["prompt_token_ids"] == [BOS, *b"[user]hi[assistant]"]
        assert [one["token_ids"] for one in chat["choices"]] == [[*b"Hello", EOS]] * 2
        done = (await server.complete("hi", return_token_ids=True)).json()["choices"][0]
        assert (done["prompt_token_ids"], done["token_ids"]) == ([BOS, *b"hi"], [*b"Hello", EOS])
        plain = (await server.complete("hi")).json()["choices"][0]
        assert not {"token_ids", "prompt_token_ids"} & plain.keys()

    run(scenario, HELLO)


@pytest.mark.parametrize("more", [{}, {"stream_interval": 3}, {"n": 2, "logprobs": True}])
@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
def test_streams_carry_the_same_ids(path: str, more: Json) -> None:
    asked: Json = {"messages": [_user("hi")]} if path == CHAT else {"prompt": "hi"}
    if path == COMPLETIONS and "logprobs" in more:
        more = {**more, "logprobs": 1}

    async def scenario(server: Server) -> None:
        events = await server.events(path, {**asked, "return_token_ids": True, **more})
        num_choices = more.get("n", 1)
        ids: list[list[int]] = [[] for _ in range(num_choices)]
        prompts = []
        for event in events[:-1]:
            if "prompt_token_ids" in event:
                prompts.append(event["prompt_token_ids"])
            for choice in event["choices"]:
                ids[choice["index"]] += choice.get("token_ids", [])
                if "prompt_token_ids" in choice:
                    prompts.append(choice["prompt_token_ids"])
        assert ids == [[*b"Hello", EOS]] * num_choices
        expected = b"[user]hi[assistant]" if path == CHAT else b"hi"
        assert prompts == [[BOS, *expected]] * (1 if path == CHAT else num_choices)
        assert choice_texts(events, num_choices) == ["Hello"] * num_choices

    run(scenario, HELLO)


def test_tokens_are_named_by_id() -> None:
    async def scenario(server: Server) -> None:
        fields = {"return_tokens_as_token_ids": True, "max_tokens": 2}
        chat = await server.chat("hi", logprobs=True, **fields)
        tokens = [one["token"] for one in chat.json()["choices"][0]["logprobs"]["content"]]
        assert tokens == [f"token_id:{id_}" for id_ in b"He"]
        done = await server.complete("hi", logprobs=1, **fields)
        logprobs = done.json()["choices"][0]["logprobs"]
        assert logprobs["tokens"] == tokens
        assert logprobs["text_offset"] == [0, 1]
        events = await server.events(COMPLETIONS, {"prompt": "hi", "logprobs": 1, **fields})
        streamed = [
            token
            for event in events[:-1]
            for choice in event["choices"]
            if choice["logprobs"]
            for token in choice["logprobs"]["tokens"]
        ]
        assert streamed == tokens

    run(scenario, HELLO)


@pytest.mark.parametrize("interval", [1, 3, 100])
@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
def test_events_hold_so_many_tokens(path: str, interval: int) -> None:
    script = list(b"abcdefghijkl")
    asked: Json = {"messages": [_user("hi")]} if path == CHAT else {"prompt": "hi"}
    setup = Setup(scripts={b"[user]hi[assistant]": script, b"hi": script})

    async def scenario(server: Server) -> None:
        body = {**asked, "stream_interval": interval, "stream_options": {"include_usage": True}}
        events = await server.events(path, body)
        texts = [
            choice.get("text") or choice.get("delta", {}).get("content")
            for event in events[:-1]
            for choice in event["choices"]
        ]
        said = [text for text in texts if text]
        assert "".join(said) == "abcdefghijkl"
        assert all(len(text) >= interval for text in said[1:-1])
        assert len(said) <= 2 + len(script) // interval
        assert finish_reasons(events) == [["stop"]]
        assert events[-2]["usage"]["completion_tokens"] == 13
        for bad in (0, -1, 65537):
            error = error_of(await server.post(path, {**asked, "stream_interval": bad}))
            assert error["param"] == "stream_interval"

    run(scenario, setup)


def test_what_an_interval_holds_is_said_before_an_error() -> None:
    async def scenario(server: Server) -> None:
        body = {"prompt": "abc", "max_tokens": 50, "ignore_eos": True, "stream_interval": 100}
        events = await server.events(COMPLETIONS, body)
        assert "error" in events[-1]
        said = "".join(one["choices"][0]["text"] for one in events[:-1])
        assert len(said.encode("utf-8", "replace")) >= 3

    run(scenario, Setup(scripts={b"abc": list(b"x" * 50)}, fail_on=(6,)))


def test_a_gap_is_filled_with_the_models_tokens() -> None:
    async def scenario(server: Server) -> None:
        ids = await _prompt_ids(server, COMPLETIONS, prompt="a</s>", suffix="b<s>")
        assert ids == [BOS, 250, *b"a</s>", 251, *b"b<s>", 252]
        ids = await _prompt_ids(server, COMPLETIONS, prompt=[97, 98], suffix="c")
        assert ids == [BOS, 250, 97, 98, 251, 99, 252]
        ids = await _prompt_ids(server, COMPLETIONS, prompt="a", suffix="")
        assert ids == [BOS, 97]
        error = error_of(await server.complete("a", suffix="b", echo=True))
        assert error["param"] == "suffix"

    run(scenario, Setup(tokenizer=GapTokenizer()))


def test_a_model_without_such_tokens_says_so() -> None:
    async def scenario(server: Server) -> None:
        error = error_of(await server.complete("a", suffix="b"))
        assert (error["param"], error["code"]) == ("suffix", "unsupported_parameter")
        await server.check_canary()

    run(scenario, Setup(tokenizer=ByteTokenizer()))


def test_names_of_other_servers_are_taken() -> None:
    async def scenario(server: Server) -> None:
        answer = await server.complete(
            "hi", n_predict=2, repeat_penalty=1.0, rid="mine", sampling_seed=3, return_tokens=True
        )
        assert answer.json()["choices"][0]["token_ids"] == list(b"He")
        assert answer.headers["x-request-id"] == "mine"
        error = error_of(await server.complete("hi", n_predict=2, max_tokens=3))
        assert error["param"] == "n_predict"
        assert (await server.complete("hi", n_predict=None, max_tokens=3)).status_code == 200
        assert error_of(await server.complete("hi", repeat_penalty=0))["param"] is not None
        assert error_of(await server.post("/tokenize", {"prompt": "a", "n_predict": 1}))

    run(scenario, HELLO)


def test_the_template_of_the_harness_asks_for_no_switch() -> None:
    async def scenario(server: Server) -> None:
        error = error_of(await server.chat("a", chat_template_kwargs={"mood": 1}))
        assert "asks for: none" in error["message"]

    run(scenario, Setup(template=TEMPLATE))


@pytest.mark.parametrize(
    ("fields", "text", "reason"),
    [
        ({"stop_regex": "l+o"}, "Hello", "l+o"),
        ({"stop_regex": ["x", "l"]}, "Hel", "l"),
        ({"stop_regex": "l.", "min_tokens": 4}, "Hello, world", "l."),
        ({"stop_regex": "o, [a-z]", "stop": "llo, w"}, "He", "llo, w"),
        ({"stop_regex": "o, [a-z]", "stop": "llo, wo"}, "Hello, w", "o, [a-z]"),
        ({"stop_regex": "[0-9]"}, "Hello, world", None),
    ],
)
@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
def test_an_answer_ends_where_a_regex_has_matched(
    path: str, fields: Json, text: str, reason: str | None
) -> None:
    asked: Json = {"messages": [_user("hi")]} if path == CHAT else {"prompt": "hi"}
    scripts = {b"[user]hi[assistant]": list(b"Hello, world"), b"hi": list(b"Hello, world")}

    async def scenario(server: Server) -> None:
        body = {**asked, "max_tokens": 30, **fields}
        (choice,) = (await server.post(path, body)).json()["choices"]
        whole = choice["message"]["content"] if path == CHAT else choice["text"]
        assert (whole, choice["finish_reason"]) == (text, "stop")
        assert choice["stop_reason"] == reason
        events = await server.events(path, body)
        assert choice_texts(events) == [text]
        assert finish_reasons(events) == [["stop"]]

    run(scenario, Setup(scripts=scripts))


def test_a_regex_that_meets_its_bounds_ends_its_own_request_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise StopFailed

    async def scenario(server: Server) -> None:
        monkeypatch.setattr(StopRegexes, "find", fail)
        error = error_of(await server.post(COMPLETIONS, {"prompt": "hi", "stop_regex": "a"}))
        assert error["param"] == "stop_regex"
        assert "must be simpler" in error["message"]
        await server.check_canary()

    run(scenario)
