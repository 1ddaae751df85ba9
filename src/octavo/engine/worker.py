"""The engine's own process: `python -m octavo.engine.worker FD`, started by `engine.child`.

The main thread loads and steps the engine; one thread reads commands, one sends heartbeats, so that
a long step never looks like a dead process. The process ends with its parent. Knows no HTTP.
"""

from __future__ import annotations

import ctypes
import gc
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable

from octavo.config.engine import EngineConfig
from octavo.core.outputs import EngineFacts, EngineOutputs
from octavo.engine.engine_loop import (
    AbortRequest,
    EngineLoop,
    ResetPrefixCache,
    SteppedEngine,
    StopEngine,
)
from octavo.engine.frames import (
    EngineReady,
    EngineStepped,
    FrameEncoder,
    FromWorker,
    Heartbeat,
    LoadEngine,
    LoadFailed,
    LoadProgress,
    SubmitRequest,
    ToWorker,
    to_worker_decoder,
)
from octavo.errors import OctavoError
from octavo.kernels._native import trim_memory

HEARTBEAT_SECONDS = 0.2
_RECEIVE_BYTES = 256 * 1024
_PR_SET_PDEATHSIG = 1

LoadFunction = Callable[[EngineConfig, Callable[[int, int], None]], SteppedEngine]


class Channel:
    """The socket to the parent. `send` may be called from any thread."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._encoder = FrameEncoder()
        self._decoder = to_worker_decoder()
        self._lock = threading.Lock()
        self._arrivals = select.poll()
        self._arrivals.register(sock, select.POLLIN)

    def send(self, message: FromWorker) -> None:
        with self._lock:
            self._socket.sendall(self._encoder.encode(message))

    def receive(self) -> list[ToWorker]:
        """Block for bytes; the messages they complete. Raises `EOFError` without a parent."""
        # The system wakes whoever blocks in recv whenever the parent has read: in every step.
        self._arrivals.poll()
        data = self._socket.recv(_RECEIVE_BYTES)
        if not data:
            raise EOFError
        return self._decoder.feed(data)


class Worker:
    """One engine behind one channel."""

    def __init__(self, channel: Channel, load: LoadFunction) -> None:
        self._channel = channel
        self._load = load
        self._loop: EngineLoop | None = None

    def run(self) -> int:
        """Load, then serve until the parent says stop. Returns the exit status."""
        gc.disable()  # what loading makes stays, so that collecting it is time spent for nothing
        config = self._receive_config()
        self._start_thread(self._beat)
        start_time = time.perf_counter()
        try:
            engine = self._load(config, self._report_progress)
        except OctavoError as error:
            self._channel.send(LoadFailed(type(error).__name__, str(error)))
            return 1
        self._loop = EngineLoop(engine, self._emit)
        self._start_thread(self._read)
        seconds = {"load": time.perf_counter() - start_time}
        facts = EngineFacts(num_pages=engine.stats().num_pages, start_seconds=seconds)
        self._channel.send(EngineReady(facts))
        trim_memory()
        gc.freeze()  # a full collection would take 8 ms to find out that all this stays
        gc.enable()
        self._loop.run()
        return 0

    def _receive_config(self) -> EngineConfig:
        messages: list[ToWorker] = []
        while not messages:
            messages = self._channel.receive()
        (message,) = messages
        assert isinstance(message, LoadEngine), "the first message is the configuration"
        return message.config

    def _report_progress(self, num_done: int, num_total: int) -> None:
        self._channel.send(LoadProgress(num_done, num_total))

    def _emit(self, outputs: EngineOutputs) -> None:
        self._channel.send(EngineStepped(outputs))

    def _start_thread(self, target: Callable[[], None]) -> None:
        threading.Thread(target=_end_process_with(target), daemon=True).start()

    def _read(self) -> None:
        assert self._loop is not None
        while True:
            for message in self._channel.receive():
                match message:
                    case SubmitRequest(request):
                        self._loop.put(request)
                    case AbortRequest() | ResetPrefixCache() | StopEngine():
                        self._loop.put(message)
                    case LoadEngine():
                        raise ValueError("an engine is loaded already")

    def _beat(self) -> None:
        while True:
            stalled_seconds = self._loop.stalled_seconds if self._loop else 0.0
            self._channel.send(Heartbeat(stalled_seconds))
            time.sleep(HEARTBEAT_SECONDS)


def _end_process_with(target: Callable[[], None]) -> Callable[[], None]:
    """The parent has gone or talks nonsense: no thread may keep this process alive then."""

    def run() -> None:
        try:
            target()
        except (EOFError, OSError):
            os._exit(1)
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(1)

    return run


def _obey_parent_only() -> None:
    """Signals sent to the whole group (Ctrl-C, a service manager) are the parent's to handle."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def serve(descriptor: int, load: LoadFunction) -> int:
    """Run a worker on an inherited socket. Returns the exit status."""
    _obey_parent_only()
    with socket.socket(fileno=descriptor) as sock:
        try:
            return Worker(Channel(sock), load).run()
        except (EOFError, BrokenPipeError, ConnectionResetError):
            return 1


if __name__ == "__main__":
    from octavo.engine.factory import load_engine

    sys.exit(serve(int(sys.argv[1]), load_engine))
