"""The load generator against scripted servers on the loopback: what it sends, reads, forgives."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import pytest

from octavo.bench.connections import parse_url
from octavo.bench.load import CHAT, COMPLETIONS, LoadError, Outcome, Server, first_model, run_load
from octavo.bench.workload import LoadRequest
from octavo.errors import ConfigError

Handler = Callable[[bytes, asyncio.StreamWriter], Awaitable[None]]
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
REQUESTS = [LoadRequest(f"prompt {i}", 2, 4) for i in range(6)]
USAGE = b'data: {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3}}\n\n'
DONE = b"data: [DONE]\n\n"


@asynccontextmanager
async def listening(handler: Handler) -> AsyncIterator[Server]:
    """A server that reads one request from each connection, and whoever would ask it."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = [line for line in head.split(b"\r\n") if line.lower().startswith(b"content-len")]
        body = await reader.readexactly(int(length[0].split(b":")[1])) if length else b""
        try:
            await handler(body, writer)
            await writer.drain()
        finally:
            writer.close()

    listener = await asyncio.start_server(connected, "127.0.0.1", 0)
    async with listener:
        port = listener.sockets[0].getsockname()[1]
        yield Server(base_url=f"http://127.0.0.1:{port}", endpoint=COMPLETIONS, model="m")


def piece(text: str) -> bytes:
    return b"data: " + json.dumps({"choices": [{"text": text}]}).encode() + b"\n\n"


def chunked(*pieces: bytes) -> bytes:
    parts = [f"{len(one):x}\r\n".encode() + one + b"\r\n" for one in pieces]
    return HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"".join(parts) + b"0\r\n\r\n"


@asynccontextmanager
async def keeping(
    answers: Sequence[bytes], cut: int = 0
) -> AsyncIterator[tuple[Server, list[int]]]:
    """A server that gives these answers to whoever asks, each in two pieces cut at `cut`, and keeps
    the connection unless the answer says that it closes; and how many requests each had."""
    numbers: list[int] = []
    left = list(answers)
    ends: list[asyncio.Task[None] | None] = []

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        index = len(numbers)
        numbers.append(0)
        ends.append(asyncio.current_task())
        with suppress(asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                assert b"connection: close" not in head
                await reader.readexactly(int(head.partition(b"content-length:")[2].split()[0]))
                numbers[index] += 1
                answer = left.pop(0)
                writer.write(answer[:cut])
                await asyncio.sleep(0.01)
                writer.write(answer[cut:])
                if b"connection: close" in answer.lower():
                    break
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()

    listener = await asyncio.start_server(connected, "127.0.0.1", 0)
    async with listener:
        port = listener.sockets[0].getsockname()[1]
        server = Server(base_url=f"http://127.0.0.1:{port}", endpoint=COMPLETIONS, model="m")
        yield replace(server, keeps_connections=True), numbers
        await asyncio.gather(*filter(None, ends))


def outcomes_of(answer: bytes, num_requests: int = 1) -> list[Outcome]:
    async def handler(_: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)

    async def run() -> list[Outcome]:
        async with listening(handler) as server:
            return await run_load(server, REQUESTS[:num_requests])

    return asyncio.run(run())


@pytest.mark.parametrize(
    "answer",
    [
        chunked(piece("a"), piece("b"), piece("c"), USAGE, DONE),
        chunked(piece("a") + piece("b")[:9], piece("b")[9:] + piece("c"), USAGE + DONE),
        HEAD + b"\r\n" + piece("a") + piece("b") + b": ping\n\n" + piece("c") + USAGE + DONE,
        HEAD
        + b"\r\n"
        + (piece("a") + piece("b") + piece("c") + USAGE).replace(b"\n", b"\r\n")
        + DONE,
    ],
)
def test_a_stream_is_read_however_it_is_cut(answer: bytes) -> None:
    (outcome,) = outcomes_of(answer)
    assert outcome.error == ""
    assert (outcome.num_prompt_tokens, outcome.num_output_tokens) == (7, 3)
    assert len(outcome.arrival_seconds) == 3
    assert 0 < outcome.ttft <= outcome.latency <= outcome.end_seconds
    assert len(outcome.itls) == 2


def test_pieces_are_counted_where_the_server_counts_no_tokens() -> None:
    (outcome,) = outcomes_of(chunked(piece("a"), piece(""), piece("b"), DONE))
    assert outcome.num_output_tokens == 2
    assert outcome.num_prompt_tokens == REQUESTS[0].num_prompt_tokens


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"HTTP/1.1 503 Busy\r\nContent-Length: 5\r\n\r\nlater", "HTTP 503: later"),
        (b"HTTP/1.1 400 Bad\r\n\r\nno", "HTTP 400: no"),
        (b"SSH-2.0-hello\r\n\r\n", "not an HTTP/1.1 answer"),
        (chunked(piece("a")), "cut short"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n20\r\nabc", "cut short"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\nabc", "not a chunk's length"),
        (b"", "not an HTTP/1.1 answer: b''"),
        (chunked(b"data: {nonsense\n\n", DONE), "DecodeError"),
        (chunked(b'data: {"error": {"message": "broke"}}\n\n', DONE), "broke"),
        (chunked(DONE), "without text"),
    ],
)
def test_failures_are_told_and_do_not_stop_the_others(answer: bytes, error: str) -> None:
    outcomes = outcomes_of(answer, num_requests=3)
    assert len(outcomes) == 3
    assert all(error in outcome.error for outcome in outcomes), outcomes[0].error


REFUSED = b"HTTP/1.1 429 Busy\r\ncontent-length: 5\r\n\r\nlater"
ANSWERED = chunked(piece("a"), piece("0"), USAGE, DONE)


@pytest.mark.parametrize("cut", [0, 3, len(ANSWERED) - 2, 10_000])
@pytest.mark.parametrize(
    ("answers", "num_requests_by_connection"),
    [
        ([ANSWERED, REFUSED, ANSWERED, ANSWERED], [4]),
        ([REFUSED.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"), ANSWERED], [1, 1]),
        ([ANSWERED.replace(b"Content", b"Connection: close\r\nContent"), ANSWERED], [1, 1]),
    ],
)
def test_connections_are_kept_where_they_may_be(
    answers: Sequence[bytes], num_requests_by_connection: list[int], cut: int
) -> None:
    async def run() -> tuple[list[Outcome], list[int]]:
        async with keeping(answers, cut) as (server, numbers):
            return await run_load(server, REQUESTS[: len(answers)], max_concurrency=1), numbers

    outcomes, numbers = asyncio.run(run())
    assert numbers == num_requests_by_connection
    for outcome, answer in zip(outcomes, answers, strict=True):
        assert ("HTTP 429: later" if b" 429 " in answer else "") in outcome.error
        assert len(outcome.arrival_seconds) == (0 if b" 429 " in answer else 2)


def test_as_many_connections_as_requests_at_the_same_time() -> None:
    async def run() -> list[int]:
        async with keeping([ANSWERED] * 6) as (server, numbers):
            outcomes = await run_load(server, REQUESTS, max_concurrency=3)
            assert not any(outcome.error for outcome in outcomes)
            return numbers

    assert sum(numbers := asyncio.run(run())) == 6
    assert len(numbers) == 3


def test_a_kept_connection_that_was_closed_is_not_used_again() -> None:
    """The server closes it a while after the answer, without a word."""

    async def run() -> list[Outcome]:
        async def handler(_: bytes, writer: asyncio.StreamWriter) -> None:
            writer.write(ANSWERED)

        async with listening(handler) as server:
            server = replace(server, keeps_connections=True, timeout_seconds=5)
            return await run_load(server, REQUESTS[:2], arrivals=[0.0, 0.2])

    assert [outcome.error for outcome in asyncio.run(run())] == ["", ""]


def test_a_port_where_nobody_listens_is_a_failure() -> None:
    async def run() -> Sequence[Outcome]:
        async with listening(lambda *_: asyncio.sleep(0)) as server:
            gone = server
        with pytest.raises(LoadError, match="does not list its models"):
            await first_model(gone)
        return await run_load(gone, REQUESTS[:1])

    (outcome,) = asyncio.run(run())
    assert "ConnectionRefusedError" in outcome.error


def test_a_silent_server_runs_into_the_timeout() -> None:
    released = asyncio.Event()

    async def handler(_: bytes, writer: asyncio.StreamWriter) -> None:  # noqa: ARG001
        await released.wait()

    async def run() -> Sequence[Outcome]:
        async with listening(handler) as server:
            outcomes = await run_load(replace(server, timeout_seconds=0.05), REQUESTS[:1])
            released.set()
            return outcomes

    (outcome,) = asyncio.run(run())
    assert outcome.error == "no end within 0.05 seconds"


def test_no_more_are_open_than_allowed_and_all_are_sent() -> None:
    num_open = most = 0
    bodies = []

    async def handler(body: bytes, writer: asyncio.StreamWriter) -> None:
        nonlocal num_open, most
        num_open += 1
        most = max(most, num_open)
        await asyncio.sleep(0.01)
        bodies.append(json.loads(body))
        writer.write(chunked(piece("a"), DONE))
        num_open -= 1

    finished = []

    async def run() -> Sequence[Outcome]:
        async with listening(handler) as server:
            return await run_load(
                replace(server, ignore_eos=True),
                REQUESTS,
                max_concurrency=2,
                on_finished=lambda done, total: finished.append((done, total)),
            )

    assert not any(outcome.error for outcome in asyncio.run(run()))
    assert most == 2
    assert sorted(body["prompt"] for body in bodies) == [one.prompt for one in REQUESTS]
    assert bodies[0]["max_tokens"] == 4
    assert bodies[0]["stream"] is True
    assert bodies[0]["ignore_eos"] is True
    assert finished == [(done, 6) for done in range(1, 7)]


def test_an_open_loop_waits_for_nobody() -> None:
    """All six are sent at their times although none is answered before the last has come."""
    all_here = asyncio.Event()
    num_here = 0

    async def handler(_: bytes, writer: asyncio.StreamWriter) -> None:
        nonlocal num_here
        num_here += 1
        if num_here == len(REQUESTS):
            all_here.set()
        await all_here.wait()
        writer.write(chunked(piece("a"), DONE))

    async def run() -> Sequence[Outcome]:
        async with listening(handler) as server:
            arrivals = [0.002 * i for i in range(len(REQUESTS))]
            return await run_load(server, REQUESTS, arrivals=arrivals)

    assert not any(outcome.error for outcome in asyncio.run(run()))


def test_chats_are_asked_as_messages_and_read_as_deltas() -> None:
    bodies = []

    async def handler(body: bytes, writer: asyncio.StreamWriter) -> None:
        bodies.append(json.loads(body))
        role = b'data: {"choices": [{"delta": {"role": "assistant", "content": ""}}]}\n\n'
        text = b'data: {"choices": [{"delta": {"content": "hi"}}]}\n\n'
        writer.write(chunked(role, text, text, DONE))

    async def run() -> Sequence[Outcome]:
        async with listening(handler) as server:
            return await run_load(replace(server, endpoint=CHAT), REQUESTS[:1])

    (outcome,) = asyncio.run(run())
    assert outcome.error == ""
    assert len(outcome.arrival_seconds) == 2
    assert bodies[0]["messages"] == [{"role": "user", "content": "prompt 0"}]


@pytest.mark.parametrize("url", ["localhost:80", "ftp://x/", "http://", "http://[x"])
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="--base-url"):
        Server(base_url=url, endpoint=CHAT, model="m")


def test_urls_are_taken_with_and_without_v1() -> None:
    for url in ("http://h:81", "http://h:81/", "http://h:81/v1", "http://h:81/v1/"):
        target = Server(base_url=url, endpoint=CHAT, model="m").target("/v1/models")
        assert (target.host, target.port, target.path) == ("h", 81, "/v1/models")
    assert parse_url("https://h/x").port == 443


def test_other_endpoints_are_refused() -> None:
    with pytest.raises(ConfigError, match="--endpoint"):
        Server(base_url="http://h", endpoint="/v1/embeddings", model="m")
