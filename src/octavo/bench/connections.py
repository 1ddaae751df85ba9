"""Bytes to a server and back over TCP: an exchange on a connection of its own, or on one kept open.

A load generator must cost the machine it measures as little as it can: while an answer comes, its
pieces are kept with their times and nothing else is done than to look for its end. Knows of an
answer only what tells its end.
"""

from __future__ import annotations

import asyncio
import re
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast
from urllib.parse import urlsplit

EVENTS_DONE = b"[DONE]"
_HEAD_END = b"\r\n\r\n"
_LAST_CHUNK = b"\r\n0\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length:\s*(\d+)\s*\r\n", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding:\s*chunked\s*\r\n", re.IGNORECASE)
_CLOSED = re.compile(rb"\r\nconnection:\s*close\s*\r\n", re.IGNORECASE)


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


class Connections:
    """Connections to one target that are kept between exchanges, as clients' libraries do: the one
    that was used last is the next to be used. Close them in the end."""

    def __init__(self) -> None:
        self._idle: list[_Connection] = []

    async def exchange(self, target: Target, request: bytes) -> list[Piece]:
        """The answer to `request`, which asks for no close. Raises OSError."""
        connection = await self._open(target)
        try:
            pieces = await connection.exchange(request, _LengthOrLastChunk())
        except BaseException:
            connection.close()
            raise
        if connection.is_open:
            self._idle.append(connection)
        return pieces

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()

    async def _open(self, target: Target) -> _Connection:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_open:
                return connection
        return await _connect(target)


async def exchange_once(target: Target, request: bytes) -> list[Piece]:
    """The answer up to the end mark of its events or of the connection. Raises OSError."""
    connection = await _connect(target)
    try:
        return await connection.exchange(request, _DoneMark())
    finally:
        connection.close()


async def _connect(target: Target) -> _Connection:
    _, connection = await asyncio.get_running_loop().create_connection(
        _Connection, target.host, target.port, ssl=target.context
    )
    return connection


EndFinder = Callable[[bytes], bool]
"""Given each piece of an answer in turn: whether it was the last."""


class _Connection(asyncio.Protocol):
    """Sends a request and keeps what comes until its end, one at a time."""

    def __init__(self) -> None:
        self._pieces: list[Piece] = []
        self._is_last: EndFinder | None = None
        self._ended: asyncio.Future[None] | None = None
        self.is_open = False

    async def exchange(self, request: bytes, is_last: EndFinder) -> list[Piece]:
        """All of the answer, or what came of it before the connection was closed."""
        self._pieces, self._is_last = [], is_last
        self._ended = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        await self._ended
        return self._pieces

    def close(self) -> None:
        self.is_open = False
        self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.is_open = True

    def data_received(self, data: bytes) -> None:
        self._pieces.append(Piece(time.perf_counter(), data))
        if self._is_last is not None and self._is_last(data):
            self._end(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        self._end(exc)

    def _end(self, error: Exception | None) -> None:
        if self._ended is None or self._ended.done():
            return
        if error is None:
            self._ended.set_result(None)
        else:
            self._ended.set_exception(error)


class _DoneMark:
    """The end mark of events, wherever it is cut. Other answers end with their connection."""

    def __init__(self) -> None:
        self._tail = b""

    def __call__(self, data: bytes) -> bool:
        seen = self._tail + data
        self._tail = data[1 - len(EVENTS_DONE) :]
        return EVENTS_DONE in seen


class _LengthOrLastChunk:
    """What the head announces: so many bytes, or chunks, of which the last is empty; else the end
    of the connection. A chunk's own data could look like the last one, but JSON cannot."""

    def __init__(self) -> None:
        self._unread = b""
        self._num_left: int | None = None
        self._is_chunked = False
        self._is_headless = True

    def __call__(self, data: bytes) -> bool:
        self._unread += data
        if self._is_headless and not self._read_head():
            return False
        if self._is_chunked:
            self._unread = self._unread[-len(_LAST_CHUNK) :]
            return self._unread == _LAST_CHUNK
        if self._num_left is None:
            return False
        self._num_left -= len(self._unread)
        self._unread = b""
        return self._num_left <= 0

    def _read_head(self) -> bool:
        head, end, rest = self._unread.partition(_HEAD_END)
        if not end:
            return False
        self._is_headless = False
        fields = head + b"\r\n"
        if _CLOSED.search(fields) is None:
            self._is_chunked = _CHUNKED.search(fields) is not None
            length = _LENGTH.search(fields)
            self._num_left = None if length is None else int(length[1])
        # The head's own line end, so that a first chunk may be the last.
        self._unread = b"\r\n" + rest if self._is_chunked else rest
        return True
