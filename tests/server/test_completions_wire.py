"""The completions wire: prompts in four shapes, echo, log probabilities (A5, B7, B8)."""

from __future__ import annotations

import asyncio

import pytest

from octavo.core.outputs import SequenceOutput
from tests.fakes import BOS
from tests.server.harness import (
    Json,
    Server,
    Setup,
    choice_texts,
    finish_reasons,
    run,
)

PATH = "/v1/completions"
HELLO = Setup(scripts={b"hi": list(b"Hello")})


async def _choices(server: Server, **body: Json) -> list[Json]:
    response = await server.post(PATH, body)
    assert response.status_code == 200, response.text
    choices: list[Json] = response.json()["choices"]
    return choices


def test_a_whole_answer() -> None:
    async def scenario(server: Server) -> None:
        answer = (await server.complete("hi", max_tokens=3)).json()
        assert answer.pop("id").startswith("cmpl-")
        assert answer.pop("created") > 1_600_000_000
        assert answer == {
            "object": "text_completion",
            "model": "fake",
            "choices": [
                {
                    "index": 0,
                    "text": "Hel",
                    "logprobs": None,
                    "finish_reason": "length",
                    "stop_reason": None,
                }
            ],
            "usage": {
                "prompt_tokens": 3,
                "completion_tokens": 3,
                "total_tokens": 6,
                "prompt_tokens_details": {"cached_tokens": 0},
            },
        }

    run(scenario, HELLO)


def test_sixteen_tokens_are_the_default() -> None:
    async def scenario(server: Server) -> None:
        usage = (await server.complete("x")).json()["usage"]
        assert usage["completion_tokens"] == 16

    run(scenario)


def test_prompts_may_be_texts_or_ids_one_or_many() -> None:
    async def scenario(server: Server) -> None:
        ids = list(b"hi")
        for prompt in ("hi", ["hi"], [BOS, *ids], [[BOS, *ids]]):
            (choice,) = await _choices(server, prompt=prompt)
            assert choice["text"] == "Hello"
        choices = await _choices(server, prompt=["hi", "yo"], n=2)
        assert [choice["index"] for choice in choices] == [0, 1, 2, 3]
        assert [choice["text"] for choice in choices] == ["Hello", "Hello", "Bye", "Bye"]

    run(scenario, Setup(scripts={b"hi": list(b"Hello"), b"yo": list(b"Bye")}))


def test_several_prompts_stream_as_choices() -> None:
    async def scenario(server: Server) -> None:
        events = await server.events(PATH, {"prompt": ["hi", "yo"], "n": 2})
        assert choice_texts(events, 4) == ["Hello", "Hello", "Bye", "Bye"]
        assert finish_reasons(events, 4) == [["stop"]] * 4
        assert events.count("[DONE]") == 1

    run(scenario, Setup(scripts={b"hi": list(b"Hello"), b"yo": list(b"Bye")}))


def test_special_tokens_may_be_left_out() -> None:
    async def scenario(server: Server) -> None:
        usage = (await server.complete("hi", add_special_tokens=False)).json()["usage"]
        assert usage["prompt_tokens"] == 2

    run(scenario, HELLO)


def test_a5_an_echo_of_nothing_but_the_prompt() -> None:
    async def scenario(server: Server) -> None:
        response = await server.complete("hi", echo=True, max_tokens=0, logprobs=1)
        assert response.status_code == 200, response.text
        answer = response.json()
        (choice,) = answer["choices"]
        assert (choice["text"], choice["finish_reason"]) == ("hi", "length")
        assert answer["usage"]["completion_tokens"] == 0
        assert choice["logprobs"]["tokens"] == ["", "h", "i"]
        assert choice["logprobs"]["token_logprobs"][0] is None
        assert choice["logprobs"]["top_logprobs"][0] is None
        assert all(value <= 0 for value in choice["logprobs"]["token_logprobs"][1:])
        await server.check_canary()

    run(scenario, HELLO)


@pytest.mark.parametrize("prompt", ["hi", [BOS, *b"hi"], ["hi", "yo"]])
@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("max_tokens", [0, 4])
def test_b8_echo_with_logprobs_streams_what_the_whole_answer_says(
    prompt: Json, n: int, max_tokens: int
) -> None:
    async def scenario(server: Server) -> None:
        body = {"prompt": prompt, "n": n, "echo": True, "logprobs": 1, "max_tokens": max_tokens}
        whole = await _choices(server, **body)
        assert "hi" in whole[0]["text"]
        events = await server.events(PATH, body)
        assert choice_texts(events, len(whole)) == [choice["text"] for choice in whole]
        for index, choice in enumerate(whole):
            pieces = [
                event["choices"][0]["logprobs"]
                for event in events[:-1]
                if event["choices"][0]["index"] == index and event["choices"][0]["logprobs"]
            ]
            for name, values in choice["logprobs"].items():
                assert [value for piece in pieces for value in piece[name]] == values

    run(scenario, Setup(scripts={b"hi": list(b"Hello"), b"yo": list(b"Bye")}))


def test_text_offsets_point_into_the_text() -> None:
    async def scenario(server: Server) -> None:
        (choice,) = await _choices(server, prompt="hi", echo=True, logprobs=0)
        text, logprobs = choice["text"], choice["logprobs"]
        assert logprobs["text_offset"] == [0, 0, 1, 2, 3, 4, 5, 6, 7][: len(logprobs["tokens"])]
        for offset, token in zip(logprobs["text_offset"], logprobs["tokens"], strict=True):
            assert text[offset:].startswith(token)

    run(scenario, HELLO)


def test_b7_a_failed_engine_ends_a_stream_with_one_error_and_no_end_mark() -> None:
    async def scenario(server: Server) -> None:
        *chunks, error = await server.events(PATH, {"prompt": "hi", "max_tokens": 40})
        assert choice_texts(chunks) == ["Hell"]
        assert finish_reasons(chunks) == [[]]
        assert set(error) == {"error"}
        assert set(error["error"]) == {"message", "type", "param", "code"}
        assert "secret" not in error["error"]["message"]
        await server.check_canary()

    run(scenario, Setup(scripts={b"hi": list(b"Hello")}, fail_on=(4,)))


def test_an_abort_by_id_ends_the_answer_with_what_there_is() -> None:
    async def scenario(server: Server) -> None:
        server.brake.close()
        answering = asyncio.create_task(
            server.complete("hi", max_tokens=400, request_id="mine", ignore_eos=True)
        )
        server.brake.release(5)
        while server.client.stats().num_generation_tokens < 3:
            await asyncio.sleep(0.001)
        aborted = await server.post("/abort_requests", {"request_ids": ["mine", "unknown"]})
        assert aborted.json() == {"num_aborted": 1}
        server.brake.open()
        (choice,) = (await answering).json()["choices"]
        assert choice["finish_reason"] == "abort"
        assert choice["text"].startswith("Hel")
        again = await server.post("/abort_requests", {"request_ids": ["mine"]})
        assert again.json() == {"num_aborted": 0}

    run(scenario, HELLO)


def test_outputs_of_engines_are_plain_data() -> None:
    """Guards the shared default lists of outputs: nobody may write into them."""
    assert SequenceOutput(request_id="a").token_ids is not SequenceOutput(request_id="b").token_ids


def test_an_answer_that_repeats_itself_is_ended() -> None:
    async def scenario(server: Server) -> None:
        detection = {"max_pattern_size": 2, "min_count": 4}
        for wish in ({}, {"stream": True}):
            response = await server.complete(
                "a", max_tokens=90, repetition_detection=detection, **wish
            )
            assert '"finish_reason":"repetition"' in response.text
            assert '"stop_reason":"repetition_detected"' in response.text
        assert server.num_finished("repetition") == 2

    run(scenario, Setup(scripts={b"a": [120, 121] * 50}))
