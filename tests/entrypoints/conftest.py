"""One loaded SmolLM2 for all tests of the doors, and a server with a fake model."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import octavo
from octavo.config.server import ServerConfig
from octavo.entrypoints.openai.http_server import DrainingServer
from tests.server.harness import Setup
from tests.server.harness import run as run_server


@pytest.fixture(scope="session")
def llm(smollm2_path: Path) -> Iterator[octavo.LLM]:
    options = {"max_model_len": 1024, "max_num_seqs": 8, "kv_cache_memory": "128M"}
    with octavo.LLM(str(smollm2_path), **options) as llm:
        yield llm


@pytest.fixture
def base_url() -> Iterator[str]:
    """A fake model's server on a socket of its own thread."""
    urls: list[str] = []
    is_ready, may_end = threading.Event(), threading.Event()

    async def serve(server) -> None:  # type: ignore[no-untyped-def]
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            urls.append(f"http://127.0.0.1:{listener.getsockname()[1]}")
            http = DrainingServer(server.app, ServerConfig(), is_ready.set)
            serving = asyncio.create_task(http.serve(sockets=[listener]))
            await asyncio.to_thread(may_end.wait)
            http.should_exit = True
            await serving

    thread = threading.Thread(target=lambda: run_server(serve, Setup()))
    thread.start()
    try:
        assert is_ready.wait(30)
        yield urls[0]
    finally:
        may_end.set()
        thread.join()
