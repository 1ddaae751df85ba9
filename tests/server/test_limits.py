"""Sizes and numbers at their limit and one beyond; overload and the end of the server."""

from __future__ import annotations

import asyncio
import json

from octavo.config.server import MIN_QUEUED_REQUESTS, ServerConfig
from tests.server.harness import MAX_NUM_SEQS, Server, Setup, error_of, parse_events, run


def test_a_body_at_the_limit_and_one_byte_beyond() -> None:
    body = json.dumps({"prompt": "a", "max_tokens": 1}).encode().ljust(100)

    async def scenario(server: Server) -> None:
        assert (await server.post("/v1/completions", body)).status_code == 200
        error = error_of(await server.post("/v1/completions", body + b" "), 413)
        assert str(len(body)) in error["message"]

        async def pieces() -> object:
            for byte in body + b" ":
                yield bytes([byte])

        chunked = await server.http.post("/v1/completions", content=pieces())  # type: ignore[arg-type]
        error_of(chunked, 413)
        await server.check_canary()

    run(scenario, Setup(options=ServerConfig(max_body_bytes=len(body))))


def test_content_types_do_not_matter() -> None:
    async def scenario(server: Server) -> None:
        for kind in ("application/json; charset=utf-8", "text/plain", ""):
            headers = {"Content-Type": kind}
            response = await server.post(
                "/v1/completions", {"prompt": "a", "max_tokens": 1}, **headers
            )
            assert response.status_code == 200

    run(scenario)


def test_l6_more_than_slots_and_queue_is_refused_at_once() -> None:
    options = ServerConfig(max_num_queued_reqs=2)

    async def scenario(server: Server) -> None:
        server.brake.close()
        waiting = [
            asyncio.create_task(server.complete("a", max_tokens=1)) for _ in range(MAX_NUM_SEQS + 2)
        ]
        while len(server.context.open_requests) < len(waiting):
            await asyncio.sleep(0.001)
        for path in ("/v1/completions", "/v1/chat/completions"):
            body = (
                {"prompt": "a"}
                if path == "/v1/completions"
                else {"messages": [{"role": "user", "content": "a"}]}
            )
            response = await server.post(path, body)
            error = error_of(response, 429)
            assert (error["type"], error["code"]) == ("rate_limit_error", "queue_full")
            assert int(response.headers["retry-after"]) >= 1
        server.brake.open()
        assert {(await task).status_code for task in waiting} == {200}
        await server.check_canary()

    run(scenario, Setup(options=options))


def test_a_request_larger_than_slots_and_queue_may_run_alone() -> None:
    async def scenario(server: Server) -> None:
        response = await server.complete(["a"] * 12, max_tokens=1)
        assert response.status_code == 200

    run(scenario, Setup(options=ServerConfig(max_num_queued_reqs=0)))


def test_the_queue_is_twice_the_slots_and_never_tiny() -> None:
    assert ServerConfig().num_queued_limit(64) == 128
    assert ServerConfig().num_queued_limit(1) == MIN_QUEUED_REQUESTS
    assert ServerConfig(max_num_queued_reqs=0).num_queued_limit(64) == 0


def test_a_drain_lets_open_requests_finish_and_refuses_new_ones() -> None:
    async def scenario(server: Server) -> None:
        server.brake.close()
        undisturbed = {"prompt": "a", "max_tokens": 8, "seed": 1}
        open_one = asyncio.create_task(server.post("/v1/completions", undisturbed))
        while not server.context.open_requests:
            await asyncio.sleep(0.001)
        drain = asyncio.create_task(server.context.open_requests.drain(20))
        await asyncio.sleep(0)
        refused = await server.complete("b")
        assert error_of(refused, 503)["type"] == "service_unavailable_error"
        assert "retry-after" in refused.headers
        error_of(await server.http.get("/health"), 503)
        server.brake.open()
        answer = (await open_one).json()
        await drain
        assert answer["usage"]["completion_tokens"] == 8

    run(scenario)


def test_what_a_drain_cannot_wait_for_gets_an_explicit_error() -> None:
    async def scenario(server: Server) -> None:
        server.brake.close()
        body = {"prompt": "a", "max_tokens": 400, "ignore_eos": True}
        whole = asyncio.create_task(server.post("/v1/completions", body))
        stream = asyncio.create_task(server.post("/v1/completions", {**body, "stream": True}))
        while len(server.context.open_requests) < 2:
            await asyncio.sleep(0.001)
        await server.context.open_requests.drain(0.05)
        assert "shutting down" in error_of(await whole, 503)["message"]
        (event,) = parse_events((await stream).text)
        assert "shutting down" in event["error"]["message"]
        server.brake.open()

    run(scenario)
