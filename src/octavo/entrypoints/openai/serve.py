"""Runs the server: socket, engine, application, and an orderly end. Called by `octavo serve`.

What takes long to import is imported while the engine's process loads the model.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from octavo import __version__
from octavo.config.engine import EngineConfig
from octavo.config.server import ServerConfig
from octavo.core.outputs import EngineFacts
from octavo.engine.child import ChildEngine, SupervisionLimits
from octavo.engine.client import EngineClient
from octavo.errors import ConfigError
from octavo.hub.find import find_model

if TYPE_CHECKING:
    from octavo.entrypoints.openai.served_app import ServedApp

logger = logging.getLogger(__name__)


def run_server(config: EngineConfig, options: ServerConfig) -> int:
    """Serve until a signal comes. Returns the exit status.

    Raises `ConfigError`, `WeightError`, `TokenizerError` or `FetchError` when it cannot start.
    """
    start_time = time.perf_counter()
    gc.disable()  # what starting makes stays, so that collecting it is time spent for nothing
    _start_log()
    names = options.served_model_name or (config.model,)
    options = replace(options, served_model_name=names)
    with _listen(options) as listener:
        config = replace(config, model=str(find_model(config.model)))
        return asyncio.run(_serve(config, options, listener, start_time))


def _start_log() -> None:
    """Ours from INFO on, of libraries only warnings; one line each on standard error."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.WARNING)
    logging.getLogger("octavo").setLevel(logging.INFO)


def _listen(options: ServerConfig) -> socket.socket:
    """The bound socket, before anything slow is done: a taken port is told at once."""
    try:
        family, *_, address = socket.getaddrinfo(
            options.host, options.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        raise ConfigError(
            f"cannot listen on {options.host} port {options.port}: {error.strerror}"
        ) from error
    return listener


async def _serve(
    config: EngineConfig, options: ServerConfig, listener: socket.socket, start_time: float
) -> int:
    client, starting = await _start_engine(config, options)
    try:
        from octavo.entrypoints.openai.served_app import ServedApp

        served = ServedApp(client, config, options)
        front_time = time.perf_counter()
        facts = await starting
        seconds = {
            **facts.start_seconds,
            "front": front_time - start_time,
            "total": time.perf_counter() - start_time,
        }
        served.metrics.started(seconds, facts.num_pages)
        gc.freeze()  # a full collection would take 36 ms to find out that all this stays
        gc.enable()
        return await served.run(listener, lambda: _announce(served, options, listener, seconds))
    finally:
        starting.cancel()
        await client.shutdown()


async def _start_engine(
    config: EngineConfig, options: ServerConfig
) -> tuple[EngineClient, asyncio.Task[EngineFacts]]:
    """The client and its starting; a process of its own is running when this returns."""
    client: EngineClient
    if options.engine_process:
        limits = SupervisionLimits(stall_seconds=options.engine_stall_seconds)
        client = ChildEngine(config, limits=limits)
    else:
        from octavo.engine.factory import load_engine
        from octavo.engine.in_process import InProcessEngine

        client = InProcessEngine(load_engine(config))
    starting = asyncio.create_task(client.start())
    await asyncio.sleep(0)
    return client, starting


def _announce(
    served: ServedApp, options: ServerConfig, listener: socket.socket, seconds: dict[str, float]
) -> None:
    host, port = listener.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    phases = ", ".join(f"{phase} {duration:.2f}" for phase, duration in seconds.items())
    print(
        f"octavo {__version__} serves {options.served_model_name[0]} at http://{shown}:{port}/v1 "
        f"(seconds: {phases})",
        file=sys.stderr,
        flush=True,
    )
    if options.host not in ("127.0.0.1", "::1", "localhost") and not served.has_keys:
        print("warning: open to the network without --api-key", file=sys.stderr, flush=True)
