"""Connections that are slow on purpose are closed; others do not notice (D14)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import httpx
import pytest

from octavo.config.server import ServerConfig
from tests.server.harness import Json, Server, Setup
from tests.server.test_real_socket import serve

QUICK = ServerConfig(header_timeout_seconds=0.2, body_timeout_seconds=0.2, client_stall_seconds=0.3)
BODY = json.dumps({"prompt": "a", "max_tokens": 1}).encode()
HEAD = b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n" % len(BODY)


class Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self) -> tuple[int, Json]:
        """Status and body of an answer that has a length."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        status = int(head.split()[1])
        lines = head.lower().split(b"\r\n")
        length = next((line for line in lines if line.startswith(b"content-length")), None)
        if length is None:
            return status, json.loads(await self.reader.read())
        return status, json.loads(await self.reader.readexactly(int(length.split(b":")[1])))

    async def end(self) -> bytes:
        """All that comes until the server closes; fails the test if it never does."""
        async with asyncio.timeout(20):
            return await self.reader.read()


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Connection]:
    port = urlsplit(url).port
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 16)
    try:
        yield Connection(reader, writer)
    finally:
        writer.close()


@pytest.mark.parametrize("sent", [HEAD[:1], HEAD[:-2], HEAD[:30]])
def test_headers_that_do_not_end_are_answered_and_closed(sent: bytes) -> None:
    async def scenario(server: Server, url: str) -> None:
        async with connected(url) as slow:
            await slow.send(sent)
            status, body = await slow.answer()
            assert status == 408
            assert "headers" in body["error"]["message"]
            assert await slow.end() == b""
        await server.check_canary()

    serve(scenario, Setup(options=QUICK))


def test_a_connection_that_says_nothing_is_closed() -> None:
    async def scenario(_server: Server, url: str) -> None:
        async with connected(url) as silent:
            assert await silent.end() == b""

    serve(scenario, Setup(options=QUICK))


def test_a_byte_now_and_then_does_not_help() -> None:
    async def scenario(_server: Server, url: str) -> None:
        async with connected(url) as slow:
            ended = asyncio.create_task(slow.end())
            for byte in HEAD * 100:
                if ended.done():
                    break
                slow.writer.write(bytes([byte]))
                await asyncio.sleep(0.02)
            assert b" 408 " in (await ended).partition(b"\r\n")[0]

    serve(scenario, Setup(options=QUICK))


@pytest.mark.parametrize("num_bytes", [0, 10])
def test_a_body_that_does_not_end_is_refused_and_closed(num_bytes: int) -> None:
    async def scenario(server: Server, url: str) -> None:
        async with connected(url) as slow:
            await slow.send(HEAD + BODY[:num_bytes])
            status, body = await slow.answer()
            assert status == 408
            assert body["error"]["message"].startswith(f"{num_bytes} bytes of the body")
            assert await slow.end() == b""
        await server.check_canary()

    serve(scenario, Setup(options=QUICK))


def test_deadlines_begin_anew_with_each_request_of_a_connection() -> None:
    async def scenario(_server: Server, url: str) -> None:
        async with connected(url) as client:
            for _ in range(3):
                await client.send(HEAD[:20])
                await asyncio.sleep(0.1)
                await client.send(HEAD[20:])
                await asyncio.sleep(0.1)
                await client.send(BODY)
                assert (await client.answer())[0] == 200
                await asyncio.sleep(0.1)
            await client.send(HEAD[:20])
            assert (await client.answer())[0] == 408

    serve(scenario, Setup(options=QUICK))


def test_who_does_not_read_is_cut_off_and_the_request_aborted() -> None:
    async def scenario(server: Server, url: str) -> None:
        body = {"prompt": ["a"] * 60, "max_tokens": 400, "stream": True, "ignore_eos": True}
        body |= {"logprobs": 20, "stream_options": {"include_usage": True}}
        data = json.dumps(body).encode()
        head = HEAD.replace(b"%d" % len(BODY), b"%d" % len(data))
        async with connected(url) as deaf:
            deaf.reader._transport.pause_reading()  # type: ignore[attr-defined]
            server.brake.close()
            await deaf.send(head + data)
            while not server.context.open_requests:
                await asyncio.sleep(0.01)
            while server.context.open_requests:  # step by step: no engine is done before the stall
                server.brake.release()
                await asyncio.sleep(0.001)
            server.brake.open()
            await server.wait_idle()
            assert server.num_finished("abort") > 0
        await server.check_canary()

    serve(scenario, Setup(options=QUICK, num_pages=8192))


def test_many_slow_connections_disturb_nobody() -> None:
    async def scenario(_server: Server, url: str) -> None:
        options = ServerConfig()
        slow = [await asyncio.open_connection("127.0.0.1", urlsplit(url).port) for _ in range(200)]
        for number, (_, writer) in enumerate(slow):
            writer.write(HEAD[: 1 + number % len(HEAD)])
        async with httpx.AsyncClient(base_url=url) as http:
            for _ in range(20):
                assert (await http.get("/health", timeout=5)).status_code == 200
            answer = await http.post("/v1/completions", content=BODY)
            assert answer.status_code == 200
        for _, writer in slow:
            writer.close()
        assert options.max_num_connections > 200

    serve(scenario)


def test_beyond_so_many_connections_there_is_a_503_in_json() -> None:
    async def scenario(_server: Server, url: str) -> None:
        async with connected(url) as first, connected(url) as second:
            await asyncio.sleep(0.05)
            async with connected(url) as third:
                await third.send(HEAD + BODY)
                status, body = await third.answer()
                assert status == 503
                assert body["error"]["type"] == "service_unavailable_error"
                assert await third.end() == b""
            for client in (first, second):
                await client.send(HEAD + BODY)
                assert (await client.answer())[0] == 200

    serve(scenario, Setup(options=ServerConfig(max_num_connections=2)))


@pytest.mark.parametrize(
    "data",
    [
        b"GARBAGE\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX : y\r\n\r\n",
        b"GET /health HTTP/1.1\r\n\r\n",
        b"POST /tokenize HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
        b"POST /tokenize HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
        b"POST /tokenize HTTP/1.1\r\nHost: a\r\nContent-Length: 1_0\r\n\r\n0123456789",
        b"POST /tokenize HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET /a\x00b HTTP/1.1\r\nHost: a\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ],
)
def test_what_is_no_request_gets_a_400_in_json_and_is_closed(data: bytes) -> None:
    async def scenario(server: Server, url: str) -> None:
        async with connected(url) as client:
            await client.send(data)
            status, body = await client.answer()
            assert status in (400, 408)
            assert set(body) == {"error"}
            assert await client.end() == b""
        await server.check_canary()

    serve(scenario, Setup(options=QUICK))


@pytest.mark.parametrize(
    "data",
    [
        b"POST /tokenize HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"POST /tokenize HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"1\r\n{\r\n-1\r\n",
    ],
)
def test_a_body_that_breaks_the_framing_ends_the_connection(data: bytes) -> None:
    async def scenario(server: Server, url: str) -> None:
        async with connected(url) as client:
            await client.send(data)
            assert b" 400 " in (await client.end()).partition(b"\r\n")[0]
        await server.check_canary()

    serve(scenario, Setup(options=QUICK))
