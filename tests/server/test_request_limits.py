"""Each part of a request at its limit and one beyond, by default and as configured (d.2)."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from octavo.config.server import ServerConfig
from tests.server.harness import Json, Server, Setup, error_of, run

SMALL = ServerConfig(
    max_json_depth=8,
    max_header_lines=20,
    max_sequences_per_request=6,
    max_messages=3,
    max_n=2,
    max_stop_strings=2,
    max_stop_regexes=2,
    max_stop_chars=5,
    max_logit_bias=2,
    max_logprobs=3,
    max_bad_words=2,
    max_allowed_token_ids=3,
)
DEFAULTS = ServerConfig()


def _user(count: int) -> list[Json]:
    return [{"role": "user", "content": "a"}] * count


def _nested(depth: int) -> Json:
    """A body of `depth` levels, itself and `logit_bias` among them, that is a bad one at most."""
    value: Json = 1
    for _ in range(depth - 1):
        value = [value]
    return {"metadata": value}


def _fields(options: ServerConfig, beyond: int) -> dict[str, Json]:
    """For each limit a chat's fields that reach it, and go `beyond`."""
    return {
        "messages": {"messages": _user(options.max_messages + beyond)},
        "n": {"n": options.max_n + beyond},
        "stop": {"stop": ["x"] * (options.max_stop_strings + beyond)},
        "stop chars": {"stop": "x" * (options.max_stop_chars + beyond)},
        "stop_regex": {"stop_regex": ["x"] * (options.max_stop_regexes + beyond)},
        "stop_regex chars": {"stop_regex": "x" * (options.max_stop_chars + beyond)},
        "logit_bias": {
            "logit_bias": {str(i % 258): 0 for i in range(options.max_logit_bias + beyond)}
        },
        "top_logprobs": {"logprobs": True, "top_logprobs": options.max_logprobs + beyond},
        "prompt_logprobs": {"prompt_logprobs": options.max_logprobs + beyond},
        "bad_words": {"bad_words": ["x"] * (options.max_bad_words + beyond)},
        "allowed_token_ids": {"allowed_token_ids": [1] * (options.max_allowed_token_ids + beyond)},
    }


@pytest.mark.parametrize("name", _fields(SMALL, 0))
def test_a_configured_limit_holds_at_it_and_one_beyond(name: str) -> None:
    async def scenario(server: Server) -> None:
        at_limit = {"messages": _user(1), "max_tokens": 1, **_fields(SMALL, 0)[name]}
        response = await server.post("/v1/chat/completions", at_limit)
        assert response.status_code == 200, response.text
        beyond = {**at_limit, **_fields(SMALL, 1)[name]}
        error = error_of(await server.post("/v1/chat/completions", beyond))
        assert error["param"] == name.partition(" ")[0]
        assert "--max-" in error["message"]
        await server.check_canary()

    run(scenario, Setup(options=SMALL, num_pages=1024))


@pytest.mark.parametrize("name", sorted(set(_fields(DEFAULTS, 0)) - {"messages", "logit_bias"}))
def test_the_defaults_hold_at_the_limit_and_one_beyond(name: str) -> None:
    async def scenario(server: Server) -> None:
        at_limit = {"messages": _user(1), "max_tokens": 1, **_fields(DEFAULTS, 0)[name]}
        response = await server.post("/v1/chat/completions", at_limit)
        assert response.status_code == 200, response.text
        beyond = {**at_limit, **_fields(DEFAULTS, 1)[name]}
        error = error_of(await server.post("/v1/chat/completions", beyond))
        assert error["param"] == name.partition(" ")[0]

    run(scenario, Setup(num_pages=1024))


def test_the_defaults_are_those_of_the_bar() -> None:
    values = (
        *(DEFAULTS.max_body_bytes, DEFAULTS.max_header_bytes, DEFAULTS.max_header_lines),
        *(DEFAULTS.max_json_depth, DEFAULTS.max_n, DEFAULTS.max_sequences_per_request),
        *(DEFAULTS.max_stop_strings, DEFAULTS.max_stop_chars, DEFAULTS.max_logit_bias),
        *(DEFAULTS.max_logprobs, DEFAULTS.max_allowed_token_ids, DEFAULTS.max_tools),
    )
    assert values == (4 << 20, 32 << 10, 100, 64, 16, 64, 16, 256, 1024, 20, 1024, 128)
    seconds = (
        *(DEFAULTS.header_timeout_seconds, DEFAULTS.stream_ping_seconds),
        *(DEFAULTS.drain_timeout_seconds, DEFAULTS.max_queue_seconds, DEFAULTS.request_timeout),
    )
    assert seconds == (10.0, 15.0, 30.0, 60.0, 600.0)


def test_depth_at_the_limit_and_one_beyond() -> None:
    async def scenario(server: Server) -> None:
        for depth, says in ((8, "expected"), (9, "nested deeper than 8")):
            body = {"prompt": "a", **_nested(depth)}
            error = error_of(await server.post("/v1/completions", body))
            assert says in error["message"]

    run(scenario, Setup(options=SMALL))


def test_header_lines_at_the_limit_and_one_beyond() -> None:
    async def scenario(server: Server) -> None:
        request = server.http.build_request("GET", "/health")
        spare = SMALL.max_header_lines - len(request.headers.raw)
        for count, status in ((spare, 200), (spare + 1, 431)):
            headers = {f"x{i}": "a" for i in range(count)}
            assert (await server.http.get("/health", headers=headers)).status_code == status

    run(scenario, Setup(options=SMALL))


def test_header_bytes_at_the_limit_and_one_beyond() -> None:
    options = replace(SMALL, max_header_bytes=2048)

    async def scenario(server: Server) -> None:
        request = server.http.build_request("GET", "/health", headers={"x": ""})
        used = sum(len(name) + len(value) for name, value in request.headers.raw)
        for spare, status in ((2048 - used, 200), (2048 - used + 1, 431)):
            response = await server.http.get("/health", headers={"x": "a" * spare})
            assert response.status_code == status

    run(scenario, Setup(options=options))


def test_sequences_of_one_request_at_the_limit_and_one_beyond() -> None:
    async def scenario(server: Server) -> None:
        assert (await server.complete(["a"] * 3, n=2, max_tokens=1)).status_code == 200
        assert (await server.complete(["a"] * 6, max_tokens=1)).status_code == 200
        assert error_of(await server.complete(["a"] * 7, max_tokens=1))["param"] == "n"

    run(scenario, Setup(options=SMALL, num_pages=1024))


def test_beams_have_a_bound_of_their_own() -> None:
    async def scenario(server: Server) -> None:
        answer = await server.complete("a", n=4, use_beam_search=True, temperature=0, max_tokens=2)
        assert answer.status_code == 200, answer.text

    run(scenario, Setup(options=SMALL, num_pages=1024))


def test_limits_are_checked_before_anything_is_tokenised() -> None:
    async def scenario(server: Server) -> None:
        body = {"messages": [{"role": "user", "content": "a" * 1000}] * 4}
        error_of(await server.post("/v1/chat/completions", json.dumps(body).encode()))
        assert server.context.inputs.tokenizer.num_encoded_chars == 0  # type: ignore[attr-defined]

    run(scenario, Setup(options=SMALL))
