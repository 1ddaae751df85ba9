"""Every answer carries X-Request-Id: the client's own, or one of ours."""

from __future__ import annotations

import asyncio

import pytest

from octavo.config.server import ServerConfig
from tests.server.harness import Server, Setup, run

NAME = "x-request-id"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/health", 200),
        ("GET", "/nothing", 404),
        ("DELETE", "/health", 405),
        ("GET", "/version", 401),
        ("POST", "/v1/completions", 401),
    ],
)
def test_answers_and_errors_carry_it(method: str, path: str, status: int) -> None:
    async def scenario(server: Server) -> None:
        for given in ("mine-1", "x" * 128):
            answer = await server.http.request(method, path, headers={NAME: given})
            assert (answer.status_code, answer.headers[NAME]) == (status, given)
        ours = {(await server.http.request(method, path)).headers[NAME] for _ in range(3)}
        assert len(ours) == 3
        for odd in ("x" * 129, "a b", "é"):
            answer = await server.http.request(
                method, path, headers=[(NAME.encode(), odd.encode())]
            )
            assert answer.headers[NAME] not in (odd, "")

    run(scenario, Setup(options=ServerConfig(api_key=("k",))))


def test_a_fault_of_ours_carries_it() -> None:
    async def scenario(server: Server) -> None:
        server.context.inputs.encode = None  # type: ignore[assignment,method-assign]
        answer = await server.post("/tokenize", {"prompt": "a"}, **{NAME: "mine"})
        assert (answer.status_code, answer.headers[NAME]) == (500, "mine")

    run(scenario)


def test_a_body_may_name_it_and_the_header_wins() -> None:
    async def scenario(server: Server) -> None:
        answer = await server.complete("a", max_tokens=1, request_id="body")
        assert answer.headers[NAME] == "body"
        assert answer.json()["id"] != "body"
        both = {"prompt": "a", "max_tokens": 1, "request_id": "body"}
        answer = await server.post("/v1/completions", both, **{NAME: "head"})
        assert answer.headers[NAME] == "head"
        answer = await server.complete("a", max_tokens=1, request_id="a\r\nb: c")
        assert answer.status_code == 200
        assert "b" not in answer.headers

    run(scenario)


def test_an_abort_finds_a_request_by_it_and_only_its_own_tenants() -> None:
    options = ServerConfig(api_key=("one", "two"))

    async def scenario(server: Server) -> None:
        server.brake.close()
        mine, other = {"Authorization": "Bearer one"}, {"Authorization": "Bearer two"}
        body = {"prompt": "a", "max_tokens": 400, "ignore_eos": True}
        posting = asyncio.create_task(
            server.post("/v1/completions", body, **mine, **{NAME: "label"})
        )
        while not server.context.open_requests:
            await asyncio.sleep(0.001)
        ids = {"request_ids": ["label"]}
        assert (await server.post("/abort_requests", ids, **other)).json() == {"num_aborted": 0}
        assert (await server.post("/abort_requests", ids, **mine)).json() == {"num_aborted": 1}
        server.brake.open()
        assert (await posting).json()["choices"][0]["finish_reason"] == "abort"

    run(scenario, Setup(options=options))
