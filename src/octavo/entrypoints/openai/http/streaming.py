"""Server-sent events over ASGI, and work that ends when its client goes away. Knows no engine."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

Result = TypeVar("Result")

DONE = b"data: [DONE]\n\n"
PING = b": ping\n\n"
_CLIENT_CLOSED_STATUS = 499
_ENCODER = msgspec.json.Encoder()


def event(body: object) -> bytes:
    """One event. JSON has no line breaks, so one line holds it."""
    return b"data: " + _ENCODER.encode(body) + b"\n\n"


def named_event(name: str, body: object) -> bytes:
    """One event of a type that readers tell it by."""
    return b"event: " + name.encode() + b"\n" + event(body)


class TextEvent:
    """An event of which only one text changes: the rest is encoded once."""

    def __init__(self, make: Callable[[str], bytes]) -> None:
        mark = uuid.uuid4().hex
        self._before, self._after = make(mark).split(f'"{mark}"'.encode())

    def with_text(self, text: str) -> bytes:
        return self._before + _ENCODER.encode(text) + self._after


async def wait_disconnect(receive: Receive) -> None:
    """Return when the client is gone. The body must have been read."""
    while (await receive())["type"] != "http.disconnect":
        pass


def client_closed() -> Response:
    """For the log: nobody reads it."""
    return Response(status_code=_CLIENT_CLOSED_STATUS)


async def unless_disconnected(request: Request, work: Coroutine[Any, Any, Result]) -> Result | None:
    """What `work` makes. If the client goes away first, None, and `work` is cancelled."""
    task = asyncio.ensure_future(work)
    watch = asyncio.ensure_future(wait_disconnect(request.receive))
    try:
        await asyncio.wait({task, watch}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        return None
    finally:
        await _cancel(task, watch)


class EventStream(Response):
    """Sends what `next_events` returns, until it returns nothing; `ping` when there was nothing for
    `ping_seconds`.

    `close` is called in any case, when the events are over or the client is gone.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        next_events: Callable[[], Awaitable[bytes]],
        close: Callable[[], None],
        ping_seconds: float,
        ping: bytes = PING,
    ) -> None:
        super().__init__(headers={"Cache-Control": "no-cache"})
        del self.headers["content-length"]
        self._next_events = next_events
        self._close = close
        self._ping_seconds = ping_seconds
        self._ping_event = ping
        self._is_due = False

    async def __call__(
        self,
        scope: Scope,  # noqa: ARG002
        receive: Receive,
        send: Send,
    ) -> None:
        write = asyncio.ensure_future(self._write(send))
        watch = asyncio.ensure_future(wait_disconnect(receive))
        ping = asyncio.ensure_future(self._ping(send))
        try:
            await asyncio.wait({write, watch}, return_when=asyncio.FIRST_COMPLETED)
            if write.done():
                write.result()
        finally:
            self._close()
            await _cancel(write, watch, ping)

    async def _write(self, send: Send) -> None:
        await send(
            {
                "type": "http.response.start",
                "status": self.status_code,
                "headers": self.raw_headers,
            }
        )
        while data := await self._next_events():
            self._is_due = False
            await send({"type": "http.response.body", "body": data, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _ping(self, send: Send) -> None:
        """Between one and two intervals of silence make a ping; a busy stream costs nothing."""
        while True:
            self._is_due = True
            await asyncio.sleep(self._ping_seconds)
            if self._is_due:
                await send(
                    {"type": "http.response.body", "body": self._ping_event, "more_body": True}
                )


async def _cancel(*tasks: asyncio.Future[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
