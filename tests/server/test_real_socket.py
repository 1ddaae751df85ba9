"""The server on a real socket: the official client, connections that break, signals."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Awaitable, Callable
from dataclasses import replace

import httpx
import openai
import pytest
import uvicorn
from uvicorn.server import ServerState

from octavo.config.server import ServerConfig
from octavo.entrypoints.openai.http.protocol import BoundedProtocol
from octavo.entrypoints.openai.http_server import DrainingServer
from tests.server.harness import MAX_NUM_SEQS, TIMEOUT_SECONDS, Server, Setup, run

PROMPT = b"[user]hi[assistant]"
HELLO = Setup(scripts={PROMPT: list(b"Hello"), b"hi": list(b"Hello")})
ENDLESS = {"prompt": "endless", "max_tokens": 400, "stream": True}

SocketScenario = Callable[[Server, str], Awaitable[None]]


def serve(
    scenario: SocketScenario,
    setup: Setup | None = None,
    *,
    timeout_seconds: float = TIMEOUT_SECONDS,
) -> None:
    setup = setup or Setup()

    async def on_socket(server: Server) -> None:
        ready = asyncio.Event()
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            http = DrainingServer(server.app, setup.options, ready.set)
            serving = asyncio.create_task(http.serve(sockets=[listener]))
            await ready.wait()
            try:
                await scenario(server, url)
            finally:
                http.should_exit = True
                server.brake.open()
                await serving

    run(on_socket, setup, timeout_seconds=timeout_seconds)


def test_the_official_client_chats() -> None:
    async def scenario(server: Server, url: str) -> None:
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="any") as client:
            models = [model.id async for model in client.models.list()]
            assert models == ["fake", "alias"]
            whole = await client.chat.completions.create(
                model="fake",
                messages=[{"role": "user", "content": "hi"}],
                logprobs=True,
                top_logprobs=1,
            )
            assert whole.choices[0].message.content == "Hello"
            assert whole.usage is not None
            assert whole.choices[0].logprobs is not None
            stream = await client.chat.completions.create(
                model="fake",
                messages=[{"role": "user", "content": "hi"}],
                stream=True,
                stream_options={"include_usage": True},
            )
            chunks = [chunk async for chunk in stream]
            text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
            assert text == "Hello"
            assert chunks[-1].usage == whole.usage.model_copy(
                update={"prompt_tokens_details": chunks[-1].usage.prompt_tokens_details}
                if chunks[-1].usage
                else {}
            )
        assert server.client.stats().num_running == 0

    serve(scenario, HELLO)


def test_the_official_client_completes_and_reads_errors() -> None:
    async def scenario(server: Server, url: str) -> None:
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="key", max_retries=0) as client:
            whole = await client.completions.create(model="fake", prompt="hi", echo=True)
            assert whole.choices[0].text == "hiHello"
            with pytest.raises(openai.NotFoundError, match="not served"):
                await client.completions.create(model="other", prompt="hi")
            with pytest.raises(openai.BadRequestError) as caught:
                await client.completions.create(model="fake", prompt="hi", n=99)
            assert caught.value.param == "n"
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="bad") as client:
            with pytest.raises(openai.AuthenticationError):
                await client.models.list()
        assert server.client.stats().num_running == 0

    serve(scenario, replace(HELLO, options=ServerConfig(api_key=("key",))))


@pytest.mark.parametrize("stream", [True, False])
def test_l1_a_broken_connection_aborts_the_request(stream: bool) -> None:
    async def scenario(server: Server, url: str) -> None:
        server.brake.close()
        async with httpx.AsyncClient() as http:
            body = {**ENDLESS, "stream": stream}
            posting = asyncio.create_task(http.post(f"{url}/v1/completions", json=body))
            server.brake.release(4)
            while server.client.stats().num_generation_tokens < 2:
                await asyncio.sleep(0.001)
            posting.cancel()
        while server.context.open_requests:
            await asyncio.sleep(0.001)
        server.brake.open()
        await server.wait_idle()
        assert server.client.stats().num_generation_tokens < 20

    serve(scenario)


def test_what_is_written_is_sent_at_once_on_a_kept_connection() -> None:
    """Also where the listening socket does not say that it speaks TCP: as `socket.socket()`."""
    made: list[BoundedProtocol] = []

    async def scenario(server: Server) -> None:
        config = uvicorn.Config(server.app, lifespan="off", log_config=None)

        def connect() -> BoundedProtocol:
            made.append(BoundedProtocol(ServerConfig(), config, ServerState(), {}))
            return made[-1]

        with socket.socket() as listener:
            assert listener.proto == 0
            listener.bind(("127.0.0.1", 0))
            serving = await asyncio.get_running_loop().create_server(connect, sock=listener)
            reader, writer = await asyncio.open_connection(*listener.getsockname())
            writer.write(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
            accepted = made[0].transport.get_extra_info("socket")
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            writer.close()
            serving.close()

    run(scenario)


def test_headers_beyond_the_limit_are_refused() -> None:
    async def scenario(server: Server, url: str) -> None:
        limit = ServerConfig().max_header_bytes
        async with httpx.AsyncClient() as http:
            fine = await http.get(f"{url}/health", headers={"X": "a" * (limit - 1024)})
            assert fine.status_code == 200
            refused = await http.get(f"{url}/health", headers={"X": "a" * (limit + 1)})
            assert refused.status_code == 431
            many = {f"x{i}": "a" for i in range(101)}
            assert (await http.get(f"{url}/health", headers=many)).status_code == 431
        await server.check_canary()

    serve(scenario)


def test_l5_sigterm_drains() -> None:
    """Accepted requests, running and queued, finish; new ones get 503; the server returns."""

    async def scenario(server: Server, url: str) -> None:
        server.brake.close()
        body = {"prompt": "a", "max_tokens": 8, "seed": 1}
        limits = httpx.Limits(max_connections=100)
        async with httpx.AsyncClient(timeout=20, limits=limits) as http:

            async def post() -> httpx.Response:
                return await http.post(f"{url}/v1/completions", json=body)

            accepted = [asyncio.create_task(post()) for _ in range(MAX_NUM_SEQS + 4)]
            while len(server.context.open_requests) < len(accepted):
                await asyncio.sleep(0.001)
            os.kill(os.getpid(), signal.SIGTERM)
            while not server.context.open_requests.is_draining:
                await asyncio.sleep(0.001)
            assert (await http.get(f"{url}/health")).status_code == 503
            assert (await post()).status_code == 503
            server.brake.open()
            answers = [await task for task in accepted]
        assert {answer.status_code for answer in answers} == {200}
        assert len({answer.json()["choices"][0]["text"] for answer in answers}) == 1

    serve(scenario)


def test_a_second_signal_ends_at_once() -> None:
    async def scenario(server: Server, url: str) -> None:
        server.brake.close()
        async with httpx.AsyncClient(timeout=20) as http:
            posting = asyncio.create_task(http.post(f"{url}/v1/completions", json=ENDLESS))
            while not server.context.open_requests:
                await asyncio.sleep(0.001)
            for _ in range(2):
                os.kill(os.getpid(), signal.SIGTERM)
                await asyncio.sleep(0.05)
            server.brake.open()
            await asyncio.wait({posting}, timeout=5)
            assert posting.done()
            posting.exception()

    serve(scenario)


def test_a_refusal_before_the_body_is_read_reaches_clients_that_are_still_sending() -> None:
    large = {"prompt": "a", "max_tokens": 1, "metadata": {"x": "y" * 3_000_000}}

    async def scenario(_server: Server, url: str) -> None:
        async with httpx.AsyncClient(base_url=url, timeout=20) as http:
            assert (await http.post("/v1/completions", json=large)).status_code == 200
            for _ in range(3):
                response = await http.post("/v1/completions", json=large)
                assert response.status_code == 429
                assert response.json()["error"]["code"] == "rate_limit_requests"
            assert (await http.get("/v1/models")).status_code == 200

    serve(scenario, Setup(options=ServerConfig(requests_per_second=0.001, request_burst=1)))
