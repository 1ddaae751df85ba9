"""Tries grammars in a process that can be killed, and remembers what came out.

Blocks for up to a second: not for an event loop. Knows no engine: what passes here is text that the
engine compiles again, within the same limits.
"""

from __future__ import annotations

import select
import subprocess
import sys
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Sequence
from typing import IO, Final, cast

import msgspec

from octavo.core.structured_outputs import StructuredOutputs
from octavo.errors import InvalidRequest, OctavoError
from octavo.structured.frames import COMPILE_SECONDS, HEADER_BYTES, Answer, frame, frame_size

COMMAND: Final = (sys.executable, "-m", "octavo.structured.worker")
START_SECONDS: Final = 20.0
CACHE_BYTES: Final = 16 << 20


class WorkerFailed(OctavoError):
    """The worker process ended or was silent for too long."""


class GrammarCompiler:
    """May be used by many threads: they take turns. The worker starts with the first grammar.

    `command` is for tests.
    """

    def __init__(self, *, cache_bytes: int = CACHE_BYTES, command: Sequence[str] = COMMAND) -> None:
        self._command = tuple(command)
        self._cache = _AnswerCache(cache_bytes)
        self._lock = threading.Lock()
        self._worker: _Worker | None = None

    def compile(self, outputs: StructuredOutputs) -> str:
        """The text of a grammar that compiles. Raises `InvalidRequest`, naming the field and the
        place in it."""
        body = msgspec.msgpack.encode(outputs)
        with self._lock:
            answer = self._cache.get(body)
            if answer is None:
                answer = self._ask(body, outputs.kind)
                self._cache.put(body, answer)
        if answer.error:
            raise InvalidRequest(answer.error, param=answer.param)
        return answer.grammar

    def close(self) -> None:
        """End the worker; another one starts when it is needed."""
        with self._lock:
            self._drop_worker()

    def _ask(self, body: bytes, kind: str) -> Answer:
        worker = self._worker or _Worker(self._command)
        self._worker = worker
        try:
            return msgspec.msgpack.decode(worker.ask(body), type=Answer)
        except WorkerFailed as error:
            self._drop_worker()
            return Answer(error=f"{kind}: {error}", param=f"structured_outputs.{kind}")

    def _drop_worker(self) -> None:
        if self._worker is not None:
            self._worker.close()
        self._worker = None


class _Worker:
    """One process. Raises `OctavoError` if it does not start."""

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self.close = weakref.finalize(self, _end, self._process)
        try:
            self._read_frame(START_SECONDS)
        except WorkerFailed as error:
            self.close()
            raise OctavoError(f"the process that checks grammars does not start: {error}") from None

    def ask(self, body: bytes) -> bytes:
        """Its answer to one frame. Raises `WorkerFailed`."""
        sink = cast("IO[bytes]", self._process.stdin)
        try:
            sink.write(frame(body))
            sink.flush()
        except OSError:
            raise WorkerFailed("the process that checks grammars has ended") from None
        return self._read_frame(COMPILE_SECONDS)

    def _read_frame(self, seconds: float) -> bytes:
        deadline = time.monotonic() + seconds
        header = self._read(HEADER_BYTES, deadline)
        return self._read(frame_size(header), deadline)

    def _read(self, size: int, deadline: float) -> bytes:
        source = cast("IO[bytes]", self._process.stdout)
        data = b""
        while len(data) < size:
            left = max(0.0, deadline - time.monotonic())
            if not select.select([source], [], [], left)[0]:
                raise WorkerFailed("takes too long to compile; it must be simpler")
            chunk = source.raw.read(size - len(data))  # type: ignore[attr-defined]
            if not chunk:
                raise WorkerFailed("takes too much memory to compile; it must be simpler")
            data += chunk
        return data


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            try:
                stream.close()
            except BrokenPipeError:
                continue


class _AnswerCache:
    """The answers used last, by what was asked, up to so many bytes of both."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._num_bytes = 0
        self._answers: OrderedDict[bytes, Answer] = OrderedDict()

    def get(self, key: bytes) -> Answer | None:
        answer = self._answers.get(key)
        if answer is not None:
            self._answers.move_to_end(key)
        return answer

    def put(self, key: bytes, answer: Answer) -> None:
        self._answers[key] = answer
        self._num_bytes += _size_of(key, answer)
        while self._num_bytes > self._max_bytes:
            self._num_bytes -= _size_of(*self._answers.popitem(last=False))


def _size_of(key: bytes, answer: Answer) -> int:
    return len(key) + len(answer.grammar) + len(answer.error)
