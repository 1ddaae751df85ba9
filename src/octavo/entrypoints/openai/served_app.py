"""The application under uvicorn, with every limit set and an end that loses no accepted request."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from types import FrameType

import uvicorn

from octavo.config.engine import EngineConfig
from octavo.config.server import ServerConfig
from octavo.engine.client import EngineClient
from octavo.engine.factory import Front, load_front
from octavo.entrypoints.openai.app import build_app
from octavo.entrypoints.openai.context import ModelInfo, ServerContext
from octavo.metrics.engine_metrics import EngineMetrics

_FLUSH_SECONDS = 1
"""After the drain every answer has been written; connections get this long to take it."""


class ServedApp:
    """Loads the front (tokenizer, template) and builds the application; `run` serves it."""

    def __init__(self, client: EngineClient, config: EngineConfig, options: ServerConfig) -> None:
        front = load_front(config)
        resolved = front.resolved.config
        max_model_len = front.inputs.max_model_len
        self._options = options
        self._client = client
        self.metrics = EngineMetrics(
            options.served_model_name[0], max_model_len, _page_facts(front)
        )
        client.observe(self.metrics)
        model = ModelInfo(
            names=options.served_model_name,
            max_model_len=max_model_len,
            max_num_seqs=resolved.max_num_seqs,
            created=int(time.time()),
        )
        self.app = build_app(client, front.inputs, model, options, self.metrics)

    async def run(self, listener: socket.socket, on_ready: Callable[[], None]) -> int:
        """Serve until a signal or the engine's end. Returns the exit status."""
        context: ServerContext = self.app.state.context
        server = DrainingServer(_uvicorn_config(self.app, self._options), context, on_ready)
        watch = asyncio.create_task(self._stop_when_gone(server))
        await server.serve(sockets=[listener])
        watch.cancel()
        return 1 if server.engine_is_gone else 0

    async def _stop_when_gone(self, server: DrainingServer) -> None:
        await self._client.wait_gone()
        server.engine_is_gone = True
        server.should_exit = True


class DrainingServer(uvicorn.Server):
    """The first signal drains, the second ends at once. The process then exits normally."""

    def __init__(
        self, config: uvicorn.Config, context: ServerContext, on_ready: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self.engine_is_gone = False
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
        await self._context.open_requests.drain(self._context.options.drain_timeout_seconds)
        self.should_exit = True


def _uvicorn_config(app: object, options: ServerConfig) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        h11_max_incomplete_event_size=options.max_header_bytes,
        limit_concurrency=options.max_num_connections,
        timeout_keep_alive=options.keep_alive_seconds,
        timeout_graceful_shutdown=_FLUSH_SECONDS,
        backlog=1024,
    )


def _page_facts(front: Front) -> dict[str, str]:
    """Under the names of vLLM's label set, as far as they have a meaning here."""
    config = front.resolved.config
    return {
        "block_size": str(config.block_size),
        "cache_dtype": config.kv_cache_dtype,
        "enable_prefix_caching": str(config.enable_prefix_caching),
    }
