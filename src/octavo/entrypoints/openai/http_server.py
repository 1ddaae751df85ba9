"""uvicorn with every limit set, and an end that loses no accepted request. Knows no engine."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from functools import partial
from types import FrameType

import uvicorn
from starlette.applications import Starlette

from octavo.config.server import ServerConfig
from octavo.entrypoints.openai.http.protocol import BoundedProtocol
from octavo.entrypoints.openai.intake.context import ServerContext

logger = logging.getLogger(__name__)

_FLUSH_SECONDS = 1
"""After the drain every answer has been written; connections get this long to take it."""


class DrainingServer(uvicorn.Server):  # type: ignore[misc]  # uvicorn is not followed
    """The first signal drains, the second ends at once. The process then exits normally."""

    def __init__(self, app: Starlette, options: ServerConfig, on_ready: Callable[[], None]) -> None:
        super().__init__(_uvicorn_config(app, options))
        context: ServerContext = app.state.context
        self._context = context
        self._on_ready = on_ready
        self._loop = asyncio.get_running_loop()
        self._drain: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        self._on_ready()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002
        self._loop.call_soon_threadsafe(self._begin_exit)

    def _begin_exit(self) -> None:
        if self._drain is None:
            self._drain = self._loop.create_task(self._exit_drained())
        else:
            self.should_exit = True
            self.force_exit = True

    async def _exit_drained(self) -> None:
        logger.info(
            "stopping: %d open requests may go on for %g seconds; a second signal ends them",
            len(self._context.open_requests),
            self._context.options.drain_timeout_seconds,
        )
        await self._context.open_requests.drain(self._context.options.drain_timeout_seconds)
        self.should_exit = True


def _uvicorn_config(app: Starlette, options: ServerConfig) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=partial(BoundedProtocol, options),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        h11_max_incomplete_event_size=options.max_header_bytes,
        timeout_keep_alive=options.keep_alive_seconds,
        timeout_graceful_shutdown=_FLUSH_SECONDS,
        backlog=1024,
    )
