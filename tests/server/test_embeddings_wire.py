"""/v1/embeddings byte by byte: shapes, both encodings, cuts, bounds, overload and disconnects."""

from __future__ import annotations

import asyncio
import base64
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import openai
import pytest

from octavo.config.server import ServerConfig
from tests.fakes import BOS, HIDDEN_SIZE
from tests.server.harness import CONTEXT, MAX_NUM_SEQS, Json, Server, Setup, error_of, run
from tests.server.test_disconnect import AsgiClient
from tests.server.test_real_socket import serve

PATH = "/v1/embeddings"
F32 = npt.NDArray[np.float32]


async def embed(server: Server, given: Json, **fields: Json) -> Json:
    response = await server.post(PATH, {"input": given, **fields})
    assert response.status_code == 200, response.text
    return response.json()


async def vectors(server: Server, given: Json, **fields: Json) -> F32:
    body = await embed(server, given, **fields)
    assert [one["index"] for one in body["data"]] == list(range(len(body["data"])))
    return np.array([one["embedding"] for one in body["data"]], np.float32)


def test_the_answer_has_openais_shape() -> None:
    async def scenario(server: Server) -> None:
        body = await embed(server, "abc", model="alias", user="somebody")
        assert body.keys() == {"id", "object", "created", "model", "data", "usage"}
        assert body["id"].startswith("embd-")
        assert (body["object"], body["model"]) == ("list", "alias")
        assert body["usage"] == {"prompt_tokens": 4, "total_tokens": 4}
        (one,) = body["data"]
        assert one.keys() == {"object", "index", "embedding"}
        assert (one["object"], one["index"]) == ("embedding", 0)
        assert np.linalg.norm(one["embedding"]) == pytest.approx(1)

    run(scenario)


def test_texts_and_ids_come_alone_or_in_lists() -> None:
    async def scenario(server: Server) -> None:
        ab, c = [BOS, *b"ab"], [BOS, *b"c"]
        both = await vectors(server, ["ab", "c"])
        assert np.array_equal(await vectors(server, [ab, c]), both)
        assert np.array_equal(await vectors(server, ab), both[:1])
        assert np.array_equal(await vectors(server, "c"), both[1:])
        plain = await vectors(server, "ab", add_special_tokens=False)
        assert np.array_equal(plain, await vectors(server, [*b"ab"]))
        assert not np.array_equal(plain, both[:1])

    run(scenario)


def test_base64_holds_the_same_numbers() -> None:
    async def scenario(server: Server) -> None:
        numbers = await vectors(server, ["ab", "c"])
        body = await embed(server, ["ab", "c"], encoding_format="base64")
        for one, row in zip(body["data"], numbers, strict=True):
            assert base64.b64decode(one["embedding"], validate=True) == row.astype("<f4").tobytes()

    run(scenario)


def test_cut_vectors_are_the_beginning_made_of_length_one() -> None:
    async def scenario(server: Server) -> None:
        (whole,) = await vectors(server, "abc", normalize=False)
        (plain,) = await vectors(server, "abc", normalize=False, dimensions=3)
        (unit,) = await vectors(server, "abc", dimensions=3)
        assert np.array_equal(plain, whole[:3])
        np.testing.assert_allclose(unit, plain / np.linalg.norm(plain), rtol=1e-6)
        newer = await vectors(server, "abc", use_activation=False)
        assert np.array_equal(newer[0], whole)
        assert (await vectors(server, "abc", dimensions=HIDDEN_SIZE)).shape == (1, HIDDEN_SIZE)

    run(scenario)


def test_a_long_text_keeps_its_end() -> None:
    async def scenario(server: Server) -> None:
        body = await embed(server, "abcdef", truncate_prompt_tokens=2)
        assert body["usage"]["prompt_tokens"] == 2
        cut = await vectors(server, "abcdef", truncate_prompt_tokens=2)
        assert np.array_equal(cut, await vectors(server, [*b"ef"]))
        right = {"truncate_prompt_tokens": 2, "truncation_side": "right"}
        first = await vectors(server, "abcdef", **right)
        assert np.array_equal(first, await vectors(server, [BOS, *b"a"]))
        long = "x" * (2 * CONTEXT)
        error = error_of(await server.post(PATH, {"input": long}))
        assert (error["param"], error["code"]) == ("input", "context_length_exceeded")

    run(scenario)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"input": []}, "input"),
        ({"input": ["a", [1]]}, "input"),
        ({"input": [[]]}, "input"),
        ({"input": [[BOS + 2]]}, "input"),
        ({"input": {"text": "a"}}, "input"),
        ({}, "input"),
        ({"input": "a", "dimensions": 0}, "dimensions"),
        ({"input": "a", "dimensions": HIDDEN_SIZE + 1}, "dimensions"),
        ({"input": "a", "dimensions": 2.5}, "dimensions"),
        ({"input": "a", "encoding_format": "bytes"}, "encoding_format"),
        ({"input": "a", "embed_dtype": "float16"}, "embed_dtype"),
        ({"input": "a", "endianness": "big"}, "endianness"),
        ({"input": "a", "truncate_prompt_tokens": -2}, "truncate_prompt_tokens"),
        ({"input": "a", "normalize": True, "use_activation": False}, "normalize"),
        ({"input": "a", "priority": 1}, "priority"),
        ({"input": "a", "timeout": 0}, "timeout"),
        ({"input": "a", "pooling_type": "mean"}, "pooling_type"),
    ],
)
def test_what_is_malformed_or_out_of_range_is_refused(fields: Json, param: str) -> None:
    async def scenario(server: Server) -> None:
        assert error_of(await server.post(PATH, fields))["param"] == param
        await server.check_canary()

    run(scenario)


def test_many_texts_take_turns_and_one_too_many_is_refused() -> None:
    """With fewer of them at once than there are slots, and more than slots and queue hold."""
    options = ServerConfig(
        max_sequences_per_request=3, max_inputs_per_request=40, max_num_queued_reqs=0
    )

    async def scenario(server: Server) -> None:
        texts = [f"text {number}" for number in range(40)]
        together = await vectors(server, texts)
        most = max(len(step.sequences) for step in server.runner.steps)
        assert most <= 3
        for text, row in zip(texts, together, strict=True):
            assert np.array_equal((await vectors(server, text))[0], row)
        error = error_of(await server.post(PATH, {"input": [*texts, "one more"]}))
        assert "41 texts; at most 40" in error["message"]

    run(scenario, Setup(options=options))


def test_it_is_refused_where_nothing_would_be_admitted() -> None:
    async def scenario(server: Server) -> None:
        server.brake.close()
        waiting = [
            asyncio.create_task(server.complete("a", max_tokens=1)) for _ in range(MAX_NUM_SEQS)
        ]
        while len(server.context.open_requests) < MAX_NUM_SEQS:
            await asyncio.sleep(0.001)
        error = error_of(await server.post(PATH, {"input": "a"}), 429)
        assert error["code"] == "queue_full"
        server.brake.open()
        await asyncio.gather(*waiting)
        assert await vectors(server, "a") is not None

    run(scenario, Setup(options=ServerConfig(max_num_queued_reqs=0)))


def test_a_deadline_ends_it() -> None:
    async def scenario(server: Server) -> None:
        server.brake.close()
        asking = asyncio.create_task(server.post(PATH, {"input": ["x" * 300, "b"], "timeout": 60}))
        while len(server.context.open_requests) == 0:
            await asyncio.sleep(0.001)
        server.clock.ahead_seconds = 100
        server.brake.open()
        error_of(await asking, 504)

    run(scenario)


def test_a_client_that_goes_takes_its_texts_along() -> None:
    async def scenario(server: Server) -> None:
        server.brake.close()
        client = AsgiClient(server, PATH, {"input": ["x" * 300] * 20})
        while server.values()["vllm:request_params_n_sum"] < 3:
            await asyncio.sleep(0.001)
        client.disconnect()
        await client.task
        assert len(server.context.open_requests) == 0
        server.brake.open()
        await server.wait_idle()
        assert server.num_finished("abort") == 3
        assert server.num_finished() == 3
        assert not client.sent

    run(scenario, Setup(options=ServerConfig(max_sequences_per_request=3)))


@pytest.mark.parametrize("text", ["a", "x" * 300])
def test_it_can_be_aborted_by_its_id(text: str) -> None:
    """Also if those of its texts that are in the engine are done before they hear of it."""

    async def scenario(server: Server) -> None:
        server.brake.close()
        body = {"input": [text] * 20, "request_id": "mine"}
        asking = asyncio.create_task(server.post(PATH, body))
        while server.values()["vllm:request_params_n_sum"] < 3:
            await asyncio.sleep(0.001)
        await server.post("/abort_requests", {"request_ids": ["mine"]})
        server.brake.open()
        assert error_of(await asking, 410)["code"] == "request_aborted"
        await server.wait_idle()
        assert server.num_finished() == 3

    run(scenario, Setup(options=ServerConfig(max_sequences_per_request=3)))


def test_a_failed_step_is_an_error_of_the_request() -> None:
    async def scenario(server: Server) -> None:
        error_of(await server.post(PATH, {"input": ["a", "b"]}), 500)
        assert await vectors(server, "a") is not None

    run(scenario, Setup(fail_on=[0]))


def test_words_and_vectors_share_steps() -> None:
    async def scenario(server: Server) -> None:
        server.brake.close()
        words = asyncio.create_task(server.complete("ab", max_tokens=5, seed=1))
        numbers = asyncio.create_task(vectors(server, ["abc", "d"]))
        while server.values()["vllm:request_params_n_sum"] < 3:
            await asyncio.sleep(0.001)
        server.brake.open()
        mixed = (await words).json()["choices"][0]["text"], await numbers
        kinds = [
            {part.sequence.request.pooling is None for part in step.sequences}
            for step in server.runner.steps
        ]
        assert {True, False} in kinds
        again = (await server.complete("ab", max_tokens=5, seed=1)).json()["choices"][0]["text"]
        assert mixed[0] == again
        assert np.array_equal(mixed[1], await vectors(server, ["abc", "d"]))

    run(scenario)


def test_the_official_client_gets_equal_numbers_either_way() -> None:
    async def scenario(server: Server, url: str) -> None:
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0) as client:
            by_default = await client.embeddings.create(model="fake", input=["ab", "c"])
            as_float = await client.embeddings.create(
                model="fake", input=["ab", "c"], encoding_format="float"
            )
            assert [one.embedding for one in by_default.data] == [
                one.embedding for one in as_float.data
            ]
            assert len(by_default.data[0].embedding) == HIDDEN_SIZE
            assert by_default.usage.prompt_tokens == 5
            short = await client.embeddings.create(model="fake", input=[1, 2], dimensions=2)
            assert len(short.data[0].embedding) == 2
            with pytest.raises(openai.BadRequestError) as caught:
                await client.embeddings.create(model="fake", input="a", dimensions=99)
            assert caught.value.param == "dimensions"
        assert server.client.stats().num_running == 0

    serve(scenario)


def test_the_key_is_needed() -> None:
    async def scenario(server: Server) -> None:
        for path in (PATH, "/score", "/v1/score", "/rerank", "/v1/rerank", "/v2/rerank"):
            error_of(await server.post(path, {"input": "a"}), 401)

    run(scenario, replace(Setup(), options=ServerConfig(api_key=("key",))))
