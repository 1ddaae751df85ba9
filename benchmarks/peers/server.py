"""A contender that is a server with OpenAI's completions: started, awaited, loaded in its turns."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Protocol

from benchmarks.peers.process import PeerError, PeerProcess
from octavo.bench.load import COMPLETIONS, LoadError, Server, ask, first_model, run_load
from octavo.bench.workload import LoadRequest

POLL_SECONDS = 0.05
START_SECONDS = 600.0

Command = tuple[list[str], Mapping[str, str]]
"""Arguments, and what is added to the environment."""


class ServingContender(Protocol):
    """Costs no processor time between calls of `serve`. `load_seconds`: until it could answer."""

    name: str
    load_seconds: float

    def serve(self, requests: Sequence[LoadRequest], clients: int) -> float:
        """Output tokens per second, `clients` of the requests open at any time."""
        ...

    def close(self) -> None: ...


class HttpContender:
    """One server on a free port of 127.0.0.1."""

    def __init__(
        self, name: str, command: Callable[[int], Command], *, is_stopped_when_idle: bool = True
    ) -> None:
        self.name = name
        port = free_port()
        arguments, environment = command(port)
        self._url = f"http://127.0.0.1:{port}"
        start = time.perf_counter()
        self._process = PeerProcess(
            name, arguments, environment, is_stopped_when_idle=is_stopped_when_idle
        )
        try:
            with self._process.turn():
                self._server = asyncio.run(self._awake())
                self.load_seconds = time.perf_counter() - start
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        return self._process.process.pid

    def serve(self, requests: Sequence[LoadRequest], clients: int) -> float:
        with self._process.turn():
            asyncio.run(self._awake())
            start = time.perf_counter()
            outcomes = asyncio.run(run_load(self._server, requests, max_concurrency=clients))
            seconds = time.perf_counter() - start
        for outcome in outcomes:
            if outcome.error:
                raise PeerError(f"{self.name}: {outcome.error}")
        return sum(outcome.num_output_tokens for outcome in outcomes) / seconds

    def close(self) -> None:
        self._process.close()

    @property
    def server(self) -> Server:
        """Whom to ask, during a turn or if it is never stopped."""
        return self._server

    async def _awake(self) -> Server:
        """The server, once it has answered with a token.

        llama-server lists models before it can, and a server just continued may need a moment.
        """
        request = LoadRequest("the", num_prompt_tokens=1, max_tokens=1)
        deadline = time.perf_counter() + START_SECONDS
        while time.perf_counter() < deadline:
            if not self._process.is_alive:
                raise PeerError(f"{self.name} has ended: {self._process.log}")
            with suppress(LoadError):
                server = await self._find()
                if not (await ask(server, request)).error:
                    return server
            await asyncio.sleep(POLL_SECONDS)
        raise PeerError(f"{self.name} did not answer in {START_SECONDS:g} s: {self._process.log}")

    async def _find(self) -> Server:
        """Raises LoadError while it does not listen."""
        asked = Server(base_url=self._url, endpoint=COMPLETIONS, model="", timeout_seconds=60)
        return Server(
            base_url=self._url,
            endpoint=COMPLETIONS,
            model=await first_model(asked),
            ignore_eos=True,
        )


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
