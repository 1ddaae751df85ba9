"""A client that goes away takes its request with it, queued or running (L1, L2)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import MutableMapping
from typing import Any

import pytest

from tests.server.harness import MAX_NUM_SEQS, Json, Server, run

Message = MutableMapping[str, Any]


class AsgiClient:
    """One request at the ASGI level: the test decides when the client disconnects."""

    def __init__(self, server: Server, path: str, body: Json) -> None:
        self._inbox: asyncio.Queue[Message] = asyncio.Queue()
        self._inbox.put_nowait({"type": "http.request", "body": json.dumps(body).encode()})
        self.sent: list[bytes] = []
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": "POST",
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": [(b"host", b"localhost")],
            "client": ("127.0.0.1", 1),
            "server": ("localhost", 80),
        }
        self.task = asyncio.create_task(server.app(scope, self._inbox.get, self._send))

    async def _send(self, message: Message) -> None:
        if message.get("body"):
            self.sent.append(message["body"])

    def disconnect(self) -> None:
        self._inbox.put_nowait({"type": "http.disconnect"})


def _body(stream: bool) -> Json:
    return {"prompt": "endless", "max_tokens": 400, "stream": stream, "seed": 1}


async def _until(condition: Any) -> None:
    while not condition():
        await asyncio.sleep(0.001)


@pytest.mark.parametrize("stream", [True, False])
def test_l1_a_disconnect_aborts_within_two_steps(stream: bool) -> None:
    async def scenario(server: Server) -> None:
        server.brake.close()
        client = AsgiClient(server, "/v1/completions", _body(stream))
        server.brake.release(6)
        await _until(lambda: server.client.stats().num_generation_tokens >= 3)
        num_steps = server.client.stats().num_steps
        client.disconnect()
        await client.task
        server.brake.open()
        await server.wait_idle()
        assert server.client.stats().num_steps <= num_steps + 6
        assert server.num_finished("abort") == 1
        assert bool(client.sent) == stream
        await server.check_canary()

    run(scenario)


@pytest.mark.parametrize("stream", [True, False])
def test_l2_a_client_may_go_while_its_request_is_queued(stream: bool) -> None:
    async def scenario(server: Server) -> None:
        server.brake.close()
        clients = [
            AsgiClient(server, "/v1/completions", _body(stream)) for _ in range(MAX_NUM_SEQS + 4)
        ]
        await _until(lambda: len(server.context.open_requests) == len(clients))
        server.brake.release(1)
        for client in reversed(clients):
            client.disconnect()
            client.disconnect()
        await asyncio.gather(*(client.task for client in clients))
        server.brake.open()
        await server.wait_idle()
        assert server.num_finished("abort") == len(clients)
        await server.check_canary()

    run(scenario)


def test_a_disconnect_during_many_prompts_aborts_all_of_them() -> None:
    async def scenario(server: Server) -> None:
        server.brake.close()
        body = {**_body(True), "prompt": ["a", "b", "c"], "n": 2}
        client = AsgiClient(server, "/v1/completions", body)
        server.brake.release(3)
        await _until(lambda: len(client.sent) >= 1)
        client.disconnect()
        await client.task
        server.brake.open()
        await server.wait_idle()
        assert server.num_finished("abort") == 6

    run(scenario)


def test_a_quiet_stream_gets_comment_lines() -> None:
    from dataclasses import replace

    from tests.server.harness import Setup

    setup = Setup()
    setup.options = replace(setup.options, stream_ping_seconds=0.02)

    async def scenario(server: Server) -> None:
        server.brake.close()
        client = AsgiClient(server, "/v1/completions", _body(True))
        await _until(lambda: client.sent.count(b": ping\n\n") >= 3)
        client.disconnect()
        await client.task

    run(scenario, setup)
