"""The chat wire, field by field, as OpenAI's clients parse it (B5, B6)."""

from __future__ import annotations

import pytest

from tests.server.harness import Json, Server, Setup, choice_texts, finish_reasons, run

PATH = "/v1/chat/completions"
PROMPT = b"[user]hi[assistant]"
NUM_PROMPT_TOKENS = 1 + len(PROMPT)
HELLO = Setup(scripts={PROMPT: list(b"Hello")})


def _body(**fields: Json) -> Json:
    return {"messages": [{"role": "user", "content": "hi"}], **fields}


def test_a_whole_answer() -> None:
    async def scenario(server: Server) -> None:
        answer = (await server.post(PATH, _body())).json()
        assert answer.pop("id").startswith("chatcmpl-")
        assert answer.pop("created") > 1_600_000_000
        assert answer == {
            "object": "chat.completion",
            "model": "fake",
            "choices": [
                {
                    "index": 0,
                    "message": {"content": "Hello", "role": "assistant", "refusal": None},
                    "logprobs": None,
                    "finish_reason": "stop",
                    "stop_reason": None,
                }
            ],
            "usage": {
                "prompt_tokens": NUM_PROMPT_TOKENS,
                "completion_tokens": 6,
                "total_tokens": NUM_PROMPT_TOKENS + 6,
                "prompt_tokens_details": {"cached_tokens": 0},
            },
        }

    run(scenario, HELLO)


def test_a_stream_has_role_then_text_then_finish_then_the_end_mark() -> None:
    async def scenario(server: Server) -> None:
        events = await server.events(PATH, _body())
        *chunks, end = events
        assert end == "[DONE]"
        assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
        assert len({(chunk["id"], chunk["created"], chunk["model"]) for chunk in chunks}) == 1
        assert all("usage" not in chunk for chunk in chunks)
        deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
        assert deltas[0] == {"role": "assistant", "content": ""}
        assert all(set(delta) == {"content"} for delta in deltas[1:-1])
        assert deltas[-1] == {}
        assert choice_texts(chunks) == ["Hello"]

    run(scenario, HELLO)


def test_b5_finish_reason_is_null_in_all_chunks_but_the_last_of_each_choice() -> None:
    async def scenario(server: Server) -> None:
        events = await server.events(PATH, _body(n=3, max_tokens=4))
        for index in range(3):
            mine = [e["choices"][0] for e in events[:-1] if e["choices"][0]["index"] == index]
            assert mine[0]["delta"] == {"role": "assistant", "content": ""}
            assert [choice["finish_reason"] for choice in mine[:-1]] == [None] * (len(mine) - 1)
            assert mine[-1]["finish_reason"] == "length"
        assert finish_reasons(events, 3) == [["length"]] * 3

    run(scenario)


def test_b6_usage_is_null_until_one_last_chunk_without_choices() -> None:
    async def scenario(server: Server) -> None:
        whole = (await server.post(PATH, _body(cache_salt="other"))).json()
        options = {"include_usage": True}
        events = await server.events(PATH, _body(stream_options=options))
        *content, usage, end = events
        assert end == "[DONE]"
        assert [chunk["usage"] for chunk in content] == [None] * len(content)
        assert usage["choices"] == []
        assert usage["usage"] == whole["usage"]

    run(scenario, HELLO)


def test_continuous_usage_counts_along() -> None:
    async def scenario(server: Server) -> None:
        options = {"include_usage": True, "continuous_usage_stats": True}
        events = await server.events(PATH, _body(stream_options=options))
        counts = [event["usage"]["completion_tokens"] for event in events[:-1]]
        assert counts == sorted(counts)
        assert counts[0] >= 1
        assert counts[-1] == 6

    run(scenario, HELLO)


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
def test_either_name_limits_the_answer(name: str) -> None:
    async def scenario(server: Server) -> None:
        (choice,) = (await server.post(PATH, _body(**{name: 2}))).json()["choices"]
        assert (choice["message"]["content"], choice["finish_reason"]) == ("He", "length")

    run(scenario, HELLO)


def test_logprobs_carry_bytes_and_the_stream_gives_the_same_ones() -> None:
    async def scenario(server: Server) -> None:
        body = _body(logprobs=True, top_logprobs=2)
        whole = (await server.post(PATH, body)).json()["choices"][0]["logprobs"]["content"]
        assert [entry["token"] for entry in whole[:5]] == list("Hello")
        assert [entry["bytes"] for entry in whole[:5]] == [[byte] for byte in b"Hello"]
        assert all(entry["logprob"] <= 0 for entry in whole)
        streamed = [
            entry
            for event in (await server.events(PATH, body))[:-1]
            for entry in (event["choices"][0]["logprobs"] or {"content": []})["content"]
        ]
        assert streamed == whole

    run(scenario, HELLO)


def test_prompt_logprobs_stand_beside_the_choices() -> None:
    async def scenario(server: Server) -> None:
        answer = (await server.post(PATH, _body(prompt_logprobs=0))).json()
        entries = answer["prompt_logprobs"]
        assert entries[0] is None
        assert len(entries) == NUM_PROMPT_TOKENS
        ((token_id, entry),) = entries[1].items()
        assert (int(token_id), entry["decoded_token"]) == (PROMPT[0], chr(PROMPT[0]))
        assert set(entry) == {"logprob", "rank", "decoded_token"}

    run(scenario, HELLO)


def test_cached_tokens_are_told_and_a_cache_salt_hides_them() -> None:
    async def scenario(server: Server) -> None:
        async def num_cached(**fields: Json) -> int:
            usage = (await server.post(PATH, _body(max_tokens=1, **fields))).json()["usage"]
            return int(usage["prompt_tokens_details"]["cached_tokens"])

        assert await num_cached() == 0
        assert await num_cached() > 0
        assert await num_cached(cache_salt="s") == 0
        assert await num_cached(cache_salt="s") > 0

    run(scenario, HELLO)


def test_without_generation_prompt_the_template_leaves_it_out() -> None:
    async def scenario(server: Server) -> None:
        usage = (await server.post(PATH, _body(add_generation_prompt=False))).json()["usage"]
        assert usage["prompt_tokens"] == 1 + len("[user]hi")

    run(scenario)
