"""uvicorn's HTTP/1.1 with deadlines for clients that are slow on purpose, and errors as JSON.

A connection waits for a request's headers, for its body, and for its client to take what is
written: each so long and no longer. Knows no route.
"""

from __future__ import annotations

import asyncio
import socket
from http import HTTPStatus
from typing import Any

import h11
import msgspec
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from octavo.config.server import ServerConfig
from octavo.entrypoints.openai.http.errors import ErrorBody, ErrorDetail, error_response
from octavo.errors import TooManyConnections

CLOSE_SECONDS = 5.0
"""Whoever has been told that a body is late gets so long to read it."""
MIN_BODY_RATE = 16 * 1024
"""Bytes a second of a body that goes on for longer than the deadline of most."""


class BoundedProtocol(H11Protocol):  # type: ignore[misc]  # uvicorn is not followed
    """One connection."""

    def __init__(self, options: ServerConfig, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.limit_concurrency = None  # uvicorn's own would not answer in JSON
        self._options = options
        self._reading: asyncio.TimerHandle | None = None
        self._read_state: object = None
        self._body_bytes = 0
        self._writing: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        _send_at_once(transport)
        super().connection_made(transport)
        if len(self.connections) > self._options.max_num_connections:
            self.app = _full
        self._watch_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        _cancel(self._reading)
        _cancel(self._writing)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._body_bytes += len(data)
        super().data_received(data)
        self._watch_reading()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._writing = self.loop.call_later(
            self._options.client_stall_seconds, self.transport.abort
        )

    def resume_writing(self) -> None:
        _cancel(self._writing)
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """What cannot be read as a request; what is too long says so."""
        unread, _ = self.conn.trailing_data
        if len(unread) > self._options.max_header_bytes:
            limit = self._options.max_header_bytes
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"more than {limit} bytes")
        else:
            self._refuse(HTTPStatus.BAD_REQUEST, msg)

    def _watch_reading(self) -> None:
        """Let a deadline begin with each new wait: for headers, or for the rest of a body."""
        state = self.conn.their_state
        if state is self._read_state and self._reading is not None:
            return
        _cancel(self._reading)
        self._read_state, self._reading = state, None
        if state is h11.IDLE:
            seconds = self._options.header_timeout_seconds
            self._reading = self.loop.call_later(seconds, self._end_late_headers)
        elif state is h11.SEND_BODY:
            self._watch_body()

    def _watch_body(self) -> None:
        """What must come whole within the deadline is refused by who reads it; a large file may
        take longer if it keeps coming."""
        seconds = self._options.body_timeout_seconds + CLOSE_SECONDS
        self._body_bytes = 0

        def check() -> None:
            if self._body_bytes < seconds * MIN_BODY_RATE:
                self.transport.abort()
            else:
                self._watch_body()

        self._reading = self.loop.call_later(seconds, check)

    def _end_late_headers(self) -> None:
        if self.transport.is_closing() or self.conn.their_state is not h11.IDLE:
            return
        if self.conn.trailing_data[0]:
            seconds = self._options.header_timeout_seconds
            self._refuse(
                HTTPStatus.REQUEST_TIMEOUT, f"the headers took more than {seconds:g} seconds"
            )
        else:
            self.transport.close()

    def _refuse(self, status: HTTPStatus, message: str) -> None:
        """The last words on this connection, unless an answer has begun."""
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.close()
            return
        error = ErrorDetail(f"{status.phrase}: {message}", "invalid_request_error")
        body = msgspec.json.encode(ErrorBody(error))
        headers = [
            ("Content-Type", "application/json"),
            ("Content-Length", str(len(body))),
            ("Connection", "close"),
        ]
        head = h11.Response(status_code=status, headers=headers, reason=status.phrase.encode())
        for event in (head, h11.Data(data=body), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event))
        self.transport.close()


async def _full(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers whoever came when all connections were taken."""
    response = error_response(TooManyConnections("all connections are taken; try again later"))
    response.headers["Connection"] = "close"
    await response(scope, receive, send)


def _send_at_once(transport: asyncio.Transport) -> None:
    """Without Nagle's delay, which holds what is small until the client has acknowledged what came
    before: 40 ms on a connection that is kept. asyncio sees to it only where the listening socket
    was made with the number of TCP."""
    connection = transport.get_extra_info("socket")
    if connection.family in (socket.AF_INET, socket.AF_INET6):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
