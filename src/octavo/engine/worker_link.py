"""One life of one worker process: start it, exchange messages, notice its end. Restarts nothing."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import time
from collections.abc import Callable, Sequence

from octavo.config.engine import EngineConfig
from octavo.core.outputs import EngineFacts, EngineOutputs
from octavo.engine.frames import (
    EngineReady,
    EngineStepped,
    FrameEncoder,
    FrameError,
    FromWorker,
    Heartbeat,
    LoadEngine,
    LoadFailed,
    LoadProgress,
    ToWorker,
    from_worker_decoder,
)
from octavo.errors import EngineDead

Progress = Callable[[int, int], None]


class WorkerLink(asyncio.Protocol):
    """`ready` resolves to the facts, to `LoadFailed`, or to None when the process died before.

    `closed` is set once the process is gone, for whatever reason.
    """

    def __init__(
        self, on_outputs: Callable[[EngineOutputs], None], on_progress: Progress | None
    ) -> None:
        self._on_outputs = on_outputs
        self._on_progress = on_progress
        self._encoder = FrameEncoder()
        self._decoder = from_worker_decoder()
        self._transport: asyncio.Transport | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._heard_time = time.monotonic()
        self.stalled_seconds = 0.0
        self.ready: asyncio.Future[EngineFacts | LoadFailed | None] = (
            asyncio.get_running_loop().create_future()
        )
        self.closed = asyncio.Event()

    @property
    def silent_seconds(self) -> float:
        """Time since the process was last heard of."""
        return time.monotonic() - self._heard_time

    @property
    def process_id(self) -> int | None:
        return None if self._process is None else self._process.pid

    @property
    def exit_status(self) -> int | None:
        return None if self._process is None else self._process.returncode

    async def launch(self, command: Sequence[str], config: EngineConfig) -> None:
        """Raises `EngineDead` when the machine refuses another process."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                self._process = subprocess.Popen(
                    [*command, str(theirs.fileno())],
                    pass_fds=(theirs.fileno(),),
                    stdin=subprocess.DEVNULL,
                )
            except OSError as error:
                ours.close()
                self.closed.set()
                raise EngineDead(f"the engine's process could not be started: {error}") from error
        # At once, before the event loop turns: the process must not wait for a busy parent.
        ours.sendall(self._encoder.encode(LoadEngine(config)))
        await asyncio.get_running_loop().create_unix_connection(lambda: self, sock=ours)

    def send(self, message: ToWorker) -> None:
        if self._transport is not None:
            self._transport.write(self._encoder.encode(message))

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._heard_time = time.monotonic()
        try:
            messages = self._decoder.feed(data)
        except FrameError:
            self.kill()
            return
        for message in messages:
            self._handle(message)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._transport = None
        self.kill()
        if self._process is not None:
            self._process.wait()
        if not self.ready.done():
            self.ready.set_result(None)
        self.closed.set()

    def _handle(self, message: FromWorker) -> None:
        match message:
            case EngineStepped(outputs):
                self._on_outputs(outputs)
            case Heartbeat(stalled_seconds):
                self.stalled_seconds = stalled_seconds
            case EngineReady(facts):
                self.ready.set_result(facts)
            case LoadFailed():
                self.ready.set_result(message)
            case LoadProgress(num_done, num_total):
                if self._on_progress is not None:
                    self._on_progress(num_done, num_total)
