"""Server-sent events over ASGI, and work that ends when its client goes away. Knows no engine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
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


async def wait_disconnect(receive: Receive) -> None:
    """Return when the client is gone. The body must have been read."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def unless_disconnected(request: Request, work: Coroutine[Any, Any, Response]) -> Response:
    """The response that `work` makes; if the client goes away first, `work` is cancelled."""
    task = asyncio.ensure_future(work)
    watch = asyncio.ensure_future(wait_disconnect(request.receive))
    try:
        await asyncio.wait({task, watch}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        return Response(status_code=_CLIENT_CLOSED_STATUS)
    finally:
        await _cancel(task, watch)


class EventStream(Response):
    """Sends events as they come; a comment line when there was none for `ping_seconds`.

    `close` is called in any case, when the events are over or the client is gone.
    """

    media_type = "text/event-stream"

    def __init__(
        self, events: AsyncIterator[bytes], close: Callable[[], None], ping_seconds: float
    ) -> None:
        super().__init__(headers={"Cache-Control": "no-cache"})
        del self.headers["content-length"]
        self._events = events
        self._close = close
        self._ping_seconds = ping_seconds
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
        async for data in self._events:
            self._is_due = False
            await send({"type": "http.response.body", "body": data, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _ping(self, send: Send) -> None:
        """Between one and two intervals of silence make a ping; a busy stream costs nothing."""
        while True:
            self._is_due = True
            await asyncio.sleep(self._ping_seconds)
            if self._is_due:
                await send({"type": "http.response.body", "body": PING, "more_body": True})


async def _cancel(*tasks: asyncio.Future[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def merge(
    streams: Sequence[AsyncIterator[Result]],
) -> AsyncIterator[tuple[int, Result]]:
    """Items of several iterators as they come, with the iterator's index. Ends after the last."""
    if len(streams) == 1:
        async for item in streams[0]:
            yield 0, item
        return
    waiting = {asyncio.ensure_future(_next(stream)): i for i, stream in enumerate(streams)}
    try:
        while waiting:
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in sorted(done, key=waiting.__getitem__):
                index = waiting.pop(task)
                for item in task.result():
                    yield index, item
                    waiting[asyncio.ensure_future(_next(streams[index]))] = index
    finally:
        await _cancel(*waiting)


async def _next(stream: AsyncIterator[Result]) -> list[Result]:
    """The next item, or nothing at the end."""
    async for item in stream:
        return [item]
    return []
