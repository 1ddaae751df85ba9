"""One streamed POST over HTTP/1.1: the data of its server-sent events, and when each arrived.

A client of our own, because a load generator must cost the machine it measures as little as it
can: while an answer comes, its pieces are kept with their times and nothing else is done; they are
taken apart when it is over. One connection for each request. Knows no JSON.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast
from urllib.parse import urlsplit

MAX_ERROR_CHARS = 500
DATA = b"data:"
DONE = b"[DONE]"


class HttpError(Exception):
    """The server refused, did not speak HTTP/1.1, or broke off."""


@dataclass(frozen=True, slots=True)
class Piece:
    """What came at once, at `arrival` by `time.perf_counter`."""

    arrival: float
    data: bytes


@dataclass(frozen=True, slots=True)
class Target:
    host: str
    port: int
    path: str
    context: ssl.SSLContext | None


def parse_url(url: str) -> Target:
    """Raises ValueError unless it is an http or https URL with a host."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{url!r} is no http or https URL")
    is_secure = parts.scheme == "https"
    return Target(
        host=parts.hostname,
        port=parts.port or (443 if is_secure else 80),
        path=(parts.path or "/") + (f"?{parts.query}" if parts.query else ""),
        context=ssl.create_default_context() if is_secure else None,
    )


async def post(target: Target, body: bytes, headers: Mapping[str, str]) -> list[Piece]:
    """The answer up to the end mark of its events or of the connection. Raises OSError."""
    length = {"Content-Length": str(len(body))}
    return await _exchange(target, _head("POST", target, {**headers, **length}) + body)


async def get(target: Target, headers: Mapping[str, str]) -> bytes:
    """The body of a GET. Raises OSError or HttpError."""
    pieces = await _exchange(target, _head("GET", target, headers))
    return b"".join(data for _, data in _bodies(pieces))


def events(pieces: Sequence[Piece]) -> Iterator[tuple[float, bytes]]:
    """(arrival, data) of each event of an answer. Raises HttpError for what is none."""
    rest = b""
    for arrival, data in _bodies(pieces):
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            if line.startswith(DATA):
                yield arrival, line[len(DATA) :].strip()


class _Exchange(asyncio.Protocol):
    """Sends a request and keeps what comes. `ended` is done at the end mark or when it closes."""

    def __init__(self, request: bytes) -> None:
        self._request = request
        self._tail = b""
        self.pieces: list[Piece] = []
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.Transport, transport).write(self._request)

    def data_received(self, data: bytes) -> None:
        self.pieces.append(Piece(time.perf_counter(), data))
        if DONE in self._tail + data:
            self._end(None)
        self._tail = data[1 - len(DONE) :]

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(exc)

    def _end(self, error: Exception | None) -> None:
        if self.ended.done():
            return
        if error is None:
            self.ended.set_result(None)
        else:
            self.ended.set_exception(error)


async def _exchange(target: Target, request: bytes) -> list[Piece]:
    transport, exchange = await asyncio.get_running_loop().create_connection(
        lambda: _Exchange(request), target.host, target.port, ssl=target.context
    )
    try:
        await exchange.ended
    finally:
        transport.close()
    return exchange.pieces


def _head(method: str, target: Target, headers: Mapping[str, str]) -> bytes:
    host = f"[{target.host}]" if ":" in target.host else target.host
    fields = {"Host": f"{host}:{target.port}", "Connection": "close", **headers}
    lines = [f"{method} {target.path} HTTP/1.1", *(f"{key}: {fields[key]}" for key in fields)]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def _bodies(pieces: Sequence[Piece]) -> list[tuple[float, bytes]]:
    """The body of a good answer as it came; HttpError for any other answer."""
    answer = _Answer()
    bodies = [(piece.arrival, answer.feed(piece.data)) for piece in pieces]
    if not answer.status:
        raise HttpError(f"not an HTTP/1.1 answer: {answer.unread[:80]!r}")
    if answer.status != 200:
        text = b"".join(data for _, data in bodies).decode("utf-8", "replace")
        raise HttpError(f"HTTP {answer.status}: {' '.join(text.split())[:MAX_ERROR_CHARS]}")
    return bodies


class _Answer:
    """Takes an answer apart: head, then a body in chunks or up to the end of the connection."""

    def __init__(self) -> None:
        self.status = 0
        self.unread = b""
        self._is_chunked = False

    def feed(self, data: bytes) -> bytes:
        """The part of the body that `data` completes."""
        self.unread += data
        if not self.status and not self._read_head():
            return b""
        if self._is_chunked:
            return self._read_chunks()
        body, self.unread = self.unread, b""
        return body

    def _read_head(self) -> bool:
        head, end, rest = self.unread.partition(b"\r\n\r\n")
        if not end:
            return False
        first, *lines = head.decode("latin-1").lower().split("\r\n")
        words = first.split(" ")
        if len(words) < 2 or not words[0].startswith("http/1.") or not words[1].isdigit():
            raise HttpError(f"not an HTTP/1.1 answer: {head[:80]!r}")
        fields = dict(line.partition(":")[::2] for line in lines)
        self._is_chunked = fields.get("transfer-encoding", "").strip() == "chunked"
        self.status, self.unread = int(words[1]), rest
        return True

    def _read_chunks(self) -> bytes:
        chunks = []
        start = 0
        while (end := self.unread.find(b"\r\n", start)) >= 0:
            size = _chunk_bytes(self.unread[start:end])
            stop = end + 2 + size
            if len(self.unread) < stop + 2:
                break
            chunks.append(self.unread[end + 2 : stop])
            start = stop + 2
        self.unread = self.unread[start:]
        return b"".join(chunks)


def _chunk_bytes(line: bytes) -> int:
    try:
        return int(line.partition(b";")[0], 16)
    except ValueError:
        raise HttpError(f"not a chunk's length: {line[:40]!r}") from None
