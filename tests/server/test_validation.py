"""Bad input gets one 400 that names the parameter, and harms nobody (A1 to A12)."""

from __future__ import annotations

import asyncio
import json
import time

import pytest

from octavo.core.sampling_params import MAX_LOGIT_BIAS, MAX_LOGPROBS
from octavo.entrypoints.openai.bodies.body import RequestBody
from octavo.entrypoints.openai.bodies.decode import unsupported_fields
from octavo.entrypoints.openai.chat.request import ChatRequest
from octavo.entrypoints.openai.completions.request import CompletionRequest
from tests.fakes import ByteTokenizer
from tests.server.harness import CONTEXT, Json, Server, Setup, error_of, run

VOCAB = ByteTokenizer.vocab_size


def _refused(path: str, body: Json, param: str | None, says: str = "") -> None:
    async def scenario(server: Server) -> None:
        error = error_of(await server.post(path, body))
        assert error["type"] == "invalid_request_error"
        assert error["param"] == param
        assert says in error["message"]
        await server.check_canary()

    run(scenario)


def _completion_refused(param: str | None, says: str = "", **fields: Json) -> None:
    _refused("/v1/completions", {"prompt": "a", **fields}, param, says)


def _chat_refused(param: str | None, says: str = "", **fields: Json) -> None:
    messages = [{"role": "user", "content": "a"}]
    _refused("/v1/chat/completions", {"messages": messages, **fields}, param, says)


@pytest.mark.parametrize(
    ("bias", "says"),
    [
        ({"191222": -100}, "191222"),
        ({str(VOCAB): 1}, str(VOCAB)),
        ({"-1": 1}, "-1"),
        ({"abc": 1}, "abc"),
        ({"1": 100.5}, "100.5"),
        ({"1": "x"}, "expected `float`"),
        ({str(i): 0 for i in range(10_000)}, "10000"),
    ],
)
def test_a1_logit_bias_outside_the_vocabulary(bias: Json, says: str) -> None:
    _chat_refused("logit_bias", says, logit_bias=bias)


def test_a1_logit_bias_at_the_limits_is_taken() -> None:
    async def scenario(server: Server) -> None:
        bias = {str(i % VOCAB): 100 * (-1) ** i for i in range(VOCAB)}
        assert len(bias) <= MAX_LOGIT_BIAS
        assert (await server.chat("a", logit_bias=bias, max_tokens=1)).status_code == 200

    run(scenario)


@pytest.mark.parametrize("more", [{}, {"min_tokens": 1}])
def test_a2_stop_token_ids_outside_the_vocabulary(more: Json) -> None:
    _completion_refused("stop_token_ids", str(VOCAB + 1), stop_token_ids=[VOCAB + 1], **more)


@pytest.mark.parametrize(
    "prompt",
    [
        [-1],
        [VOCAB],
        [2**63 - 1],
        [1.5],
        [True],
        [None],
        [[1], [-1]],
        ["a", 1],
        [["a"]],
        {"a": 1},
        7,
    ],
)
def test_a3_prompt_ids_that_are_no_tokens(prompt: Json) -> None:
    async def scenario(server: Server) -> None:
        good, bad = await asyncio.gather(
            server.complete("neighbour", max_tokens=4, temperature=0), server.complete(prompt)
        )
        assert error_of(bad)["param"] == "prompt"
        again = await server.complete("neighbour", max_tokens=4, temperature=0)
        assert good.json()["choices"] == again.json()["choices"]

    run(scenario)


@pytest.mark.parametrize("prompt", ["", [""], [], [[]]])
def test_a4_empty_prompts_without_a_bos(prompt: Json) -> None:
    async def scenario(server: Server) -> None:
        assert error_of(await server.complete(prompt))["param"] == "prompt"
        await server.check_canary()

    run(scenario, Setup(tokenizer=ByteTokenizer(bos_token_id=None)))


def test_a4_an_empty_text_is_the_bos_where_there_is_one() -> None:
    async def scenario(server: Server) -> None:
        for prompt in ("", [""]):
            response = await server.complete(prompt, max_tokens=3)
            assert response.json()["usage"]["prompt_tokens"] == 1
        empties: list[Json] = [[], [[]]]
        for empty in empties:
            assert error_of(await server.complete(empty))["param"] == "prompt"

    run(scenario)


@pytest.mark.parametrize("fields", [{"temperature": 1e-4}, {"temperature": 1e-30}, {"top_p": 1e-4}])
def test_a6_tiny_values_are_taken(fields: Json) -> None:
    async def scenario(server: Server) -> None:
        response = await server.complete("a", max_tokens=3, **fields)
        assert response.json()["usage"]["completion_tokens"] == 3

    run(scenario)


@pytest.mark.parametrize("name", ["temperature", "top_p", "min_p"])
@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e400", "-1", "1e308"])
def test_a6_numbers_that_are_none_or_out_of_range(name: str, value: str) -> None:
    async def scenario(server: Server) -> None:
        body = f'{{"prompt": "a", "{name}": {value}}}'.encode()
        error_of(await server.post("/v1/completions", body))
        await server.check_canary()

    run(scenario)


def test_a7_the_first_bad_field_is_named() -> None:
    _completion_refused("temperature", "999999", temperature=999999, top_p=-1, repetition_penalty=0)


@pytest.mark.parametrize("top", [MAX_LOGPROBS + 1, 1_000_000, -1])
def test_a8_more_log_probabilities_than_there_may_be(top: int) -> None:
    _chat_refused("top_logprobs", str(top), logprobs=True, top_logprobs=top)


def test_a8_as_many_as_there_may_be() -> None:
    async def scenario(server: Server) -> None:
        response = await server.chat("a", logprobs=True, top_logprobs=MAX_LOGPROBS, max_tokens=2)
        assert len(response.json()["choices"][0]["logprobs"]["content"]) == 2

    run(scenario)


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b"[]",
        b"null",
        b'"x"',
        b"",
        b"17",
        b'{"messages": [',
        b'{"messages": []}',
        b'{"messages": null}',
        b'{"messages": [{}]}',
        b'{"messages": ["x"]}',
        b'{"messages": [{"role": "user", "content": "a"}], "n": 1, "n": 2}',
        b'{"messages": [{"role": "user", "content": "a", "content": "b"}]}',
        b'{"messages": [{"role": "user", "content": "\\ud800"}]}',
        b'{"messages": [{"role": "user", "content": "\xff"}]}',
        b'{"messages": ' + b"[" * 100_000,
        b'{"seed": ' + b"9" * 10_000 + b"}",
    ],
    ids=range(17),
)
def test_a9_bodies_that_are_no_request(body: bytes) -> None:
    async def scenario(server: Server) -> None:
        error_of(await server.post("/v1/chat/completions", body))
        await server.check_canary()

    run(scenario)


@pytest.mark.parametrize(("num_prompt", "max_tokens"), [(CONTEXT - 8, 8), (8, CONTEXT - 8)])
def test_a10_the_context_length_to_the_token(num_prompt: int, max_tokens: int) -> None:
    async def scenario(server: Server) -> None:
        ids = [65] * num_prompt
        exact = await server.complete(ids, max_tokens=max_tokens)
        assert exact.json()["usage"]["total_tokens"] == CONTEXT
        error = error_of(await server.complete(ids, max_tokens=max_tokens + 1))
        assert error["code"] == "context_length_exceeded"
        assert str(CONTEXT) in error["message"]
        assert str(num_prompt) in error["message"]

    run(scenario)


def test_a10_a_prompt_that_fills_the_context_alone() -> None:
    async def scenario(server: Server) -> None:
        for num_tokens in (CONTEXT, CONTEXT + 1):
            error = error_of(await server.complete([65] * num_tokens, max_tokens=1))
            assert error["code"] == "context_length_exceeded"

    run(scenario)


def test_a10_a_chat_without_limit_gets_the_rest_of_the_context() -> None:
    async def scenario(server: Server) -> None:
        usage = (await server.chat("a")).json()["usage"]
        assert usage["total_tokens"] == CONTEXT

    run(scenario)


@pytest.mark.parametrize("character", ["a", " ", "\N{GRINNING FACE}", "\x00"])
def test_a11_a_message_of_50_000_equal_characters(character: str) -> None:
    async def scenario(server: Server) -> None:
        start_time = time.process_time()
        error = error_of(await server.chat(character * 50_000))
        assert error["code"] == "context_length_exceeded"
        assert time.process_time() - start_time < 10  # quadratic would take minutes
        await server.check_canary()

    run(scenario)


def test_a12_two_requests_may_carry_the_same_id() -> None:
    async def scenario(server: Server) -> None:
        answers = await asyncio.gather(
            *(server.complete("same", request_id="mine", max_tokens=5, temperature=0) for _ in "ab")
        )
        first, second = (answer.json() for answer in answers)
        assert first["choices"] == second["choices"]
        assert first["id"] != second["id"]

    run(scenario)


def test_unknown_parameters_are_refused_by_name() -> None:
    _completion_refused("tempature", "unknown parameter 'tempature'", tempature=1)


def _unsupported(kind: type[RequestBody]) -> list[str]:
    return sorted(unsupported_fields(kind))


@pytest.mark.parametrize("name", _unsupported(ChatRequest))
def test_known_but_unsupported_chat_parameters_say_so(name: str) -> None:
    async def scenario(server: Server) -> None:
        error = error_of(await server.chat("a", **{name: [{"type": "function"}]}))
        assert (error["param"], error["code"]) == (name, "unsupported_parameter")
        assert (await server.chat("a", max_tokens=1, **{name: None})).status_code == 200

    run(scenario)


@pytest.mark.parametrize("name", _unsupported(CompletionRequest))
def test_known_but_unsupported_completion_parameters_say_so(name: str) -> None:
    async def scenario(server: Server) -> None:
        error = error_of(await server.complete("a", **{name: {"x": 1}}))
        assert (error["param"], error["code"]) == (name, "unsupported_parameter")

    run(scenario)


@pytest.mark.parametrize(
    ("param", "fields"),
    [
        ("response_format", {"response_format": {"type": "json"}}),
        ("store", {"store": True}),
        ("priority", {"priority": 3}),
        ("prompt_logprobs", {"prompt_logprobs": 1, "stream": True}),
        ("stream_options", {"stream_options": {"include_usage": True}}),
        ("top_logprobs", {"top_logprobs": 2}),
        ("max_completion_tokens", {"max_tokens": 3, "max_completion_tokens": 4}),
        ("n", {"n": 0}),
        ("n", {"n": 17}),
        ("n", {"n": "2"}),
        ("n", {"n": 1.5}),
        ("stop", {"stop": [""]}),
        ("stop", {"stop": ["x"] * 17}),
        ("stop_regex", {"stop_regex": [""]}),
        ("stop_regex", {"stop_regex": "("}),
        ("stop_regex", {"stop_regex": ["a", "b*"]}),
        ("stop_regex", {"stop_regex": 1}),
        ("min_tokens", {"min_tokens": 5, "max_tokens": 4}),
        ("seed", {"seed": 1.5}),
    ],
)
def test_bad_chat_fields_are_named(param: str, fields: Json) -> None:
    _chat_refused(param, **fields)


def test_labels_and_spelled_out_defaults_are_taken() -> None:
    async def scenario(server: Server) -> None:
        response = await server.chat(
            "a",
            max_tokens=1,
            user="me",
            metadata={"a": "b"},
            store=False,
            service_tier="auto",
            response_format={"type": "text"},
            tools=[],
            tool_choice="none",
            logit_bias={},
            best_of=1,
            stop=None,
            top_k=-1,
        )
        assert response.status_code == 200, response.text

    run(scenario)


@pytest.mark.parametrize(
    "fields",
    [
        {"tool_choice": "auto"},
        {"tool_choice": None},
        {"function_call": "none"},
        {"functions": []},
        {"parallel_tool_calls": True},
        {"parallel_tool_calls": False},
        {"verbosity": "medium"},
        {"include_reasoning": True},
        {"stop": []},
        {"frequency_penalty": 0, "presence_penalty": 0},
        {"n": 1, "logprobs": False, "top_logprobs": 0},
        {"modalities": ["text"]},
        {"mirostat": 0, "mirostat_tau": 5.0, "mirostat_eta": 0.1, "typical_p": 1.0},
        {"dry_multiplier": 0, "dry_sequence_breakers": ["\n"], "xtc_probability": 0},
        {"bad_words": []},
        {"stream": False, "stream_options": None},
    ],
    ids=str,
)
def test_values_that_ask_for_nothing_are_taken(fields: Json) -> None:
    async def scenario(server: Server) -> None:
        response = await server.chat("a", max_tokens=1, **fields)
        assert response.status_code == 200, response.text

    run(scenario)


@pytest.mark.parametrize(
    ("path", "kind", "content"),
    [
        ("/v1/completions", CompletionRequest, {"prompt": "a"}),
        (
            "/v1/chat/completions",
            ChatRequest,
            {"messages": [{"role": "user", "content": "a"}]},
        ),
    ],
)
def test_null_is_as_good_as_absent(path: str, kind: type[RequestBody], content: Json) -> None:
    nulls = dict.fromkeys(kind.__struct_fields__) | content

    async def scenario(server: Server) -> None:
        response = await server.post(path, nulls | {"max_tokens": 1})
        assert response.status_code == 200, response.text

    run(scenario)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"tool_choice": "required"}, "without tools"),
        ({"service_tier": "flex"}, "'auto' or 'default' is allowed"),
        ({"modalities": ["text", "audio"]}, "'text' is allowed"),
        ({"reasoning_effort": "high"}, "has no place for it"),
        ({"temperatur": 1}, "did you mean 'temperature'?"),
    ],
)
def test_a_refusal_says_what_is_allowed(fields: dict[str, Json], says: str) -> None:
    _chat_refused(next(iter(fields)), says, **fields)


def test_messages_that_a_template_cannot_use_are_the_clients_fault() -> None:
    async def scenario(server: Server) -> None:
        body = {"messages": [{"role": "user", "content": 5}]}
        response = await server.post("/v1/chat/completions", body)
        assert response.status_code in (200, 400), response.text
        await server.check_canary()

    run(scenario)


def test_a_model_that_is_not_served_is_404() -> None:
    async def scenario(server: Server) -> None:
        error = error_of(await server.complete("a", model="other"), 404)
        assert (error["param"], error["code"]) == ("model", "model_not_found")
        for name in ("fake", "alias"):
            response = await server.complete("a", model=name, max_tokens=1)
            assert response.json()["model"] == name

    run(scenario)


def test_n_times_prompts_is_bounded() -> None:
    async def scenario(server: Server) -> None:
        assert error_of(await server.complete(["a"] * 33, n=2))["param"] == "n"
        assert (await server.complete(["a"] * 8, n=2, max_tokens=1)).status_code == 200

    run(scenario)


def test_errors_never_show_what_libraries_say() -> None:
    async def scenario(server: Server) -> None:
        response = await server.complete("a", max_tokens=4)
        assert "secret" not in json.dumps(error_of(response, 500))

    run(scenario, Setup(fail_on=(0,)))


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions"])
@pytest.mark.parametrize(
    ("param", "value", "says"),
    [
        ("typical_p", 0, "above 0.0 and up to 1.0"),
        ("top_n_sigma", "1", "expected `float"),
        ("xtc_probability", 1.5, "from 0.0 to 1.0"),
        ("dry_multiplier", -1, "from 0.0 to 100.0"),
        ("dry_sequence_breakers", [""], "1 to 40 characters"),
        ("mirostat", 1, "0 and 2 are supported"),
        ("repetition_detection", {"max_pattern_size": 2}, "from 2 to 1024"),
        ("bad_words", ["x" * 300], "1 to 256 characters"),
        ("allowed_token_ids", [], "at least one"),
        ("allowed_token_ids", [VOCAB], str(VOCAB)),
    ],
)
def test_a1_further_sampling_parameters_have_ranges(
    path: str, param: str, value: Json, says: str
) -> None:
    asked: dict[str, Json] = {"messages": [{"role": "user", "content": "a"}]}
    if path == "/v1/completions":
        asked = {"prompt": "a"}
    _refused(path, {**asked, param: value}, param, says)


@pytest.mark.parametrize(
    ("param", "fields", "says"),
    [
        ("logits_processors", {"logits_processors": ["x"]}, "has 'x'; this server has none"),
        ("logits_processors", {"logits_processors": [{"qualname": "x"}] * 9}, "at most 8"),
        ("logits_processors", {"logits_processors": [{"name": "x"}]}, "unknown field `name`"),
        ("vllm_xargs", {"vllm_xargs": {"a": 1}}, "without logits_processors"),
        ("vllm_xargs", {"vllm_xargs": {"a": {}}}, "expected"),
    ],
)
def test_logits_processors_that_a_server_does_not_have(param: str, fields: Json, says: str) -> None:
    _chat_refused(param, says, **fields)
