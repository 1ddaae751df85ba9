"""Tries grammars in a process that can be killed, and remembers what came out.

Blocks for as long as a grammar may take: not for an event loop. Knows no engine: what passes here
is text that the engine compiles again, within the same limits.
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
from concurrent.futures import Future, ThreadPoolExecutor
from typing import IO, Final, cast

import msgspec

from octavo.config.front_limits import FrontLimits
from octavo.errors import InvalidRequest, OctavoError
from octavo.structured.frames import HEADER_BYTES, Answer, WorkerLimits, frame, frame_size
from octavo.structured.task import GrammarTask
from octavo.structured.task_limits import check_sizes

COMMAND: Final = (sys.executable, "-m", "octavo.structured.worker")
START_SECONDS: Final = 20.0


class WorkerFailed(OctavoError):
    """The worker process ended or was silent for too long."""


class GrammarCompiler:
    """May be used by many threads: they take turns. The worker starts with the first grammar, and
    so does the thread that waits for it on behalf of who must not block.

    `command` is for tests.
    """

    def __init__(
        self, limits: FrontLimits | None = None, *, command: Sequence[str] = COMMAND
    ) -> None:
        self._limits = limits or FrontLimits()
        self._command = tuple(command)
        self._cache = _AnswerCache(self._limits.grammar_cache_bytes)
        self._lock = threading.Lock()
        self._worker: _Worker | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="grammar-compiler")

    def compile(self, task: GrammarTask) -> str:
        """The text of a grammar that compiles. Raises `InvalidRequest`, naming the field and the
        place in it. What took too long is not remembered: the machine may have been busy."""
        check_sizes(task, self._limits)
        body = msgspec.msgpack.encode(task)
        answer = self._cache.get(body)
        if answer is None:
            with self._lock:
                answer = self._cache.get(body) or self._ask(body, task)
            self._cache.put(body, answer)
        return _grammar_of(answer)

    def start(self, task: GrammarTask) -> Future[str]:
        """As `compile`, but at once: with the outcome if it is known, else with one to come, in the
        order of the calls. May be cancelled before its turn."""
        known: Future[str] = Future()
        try:
            check_sizes(task, self._limits)
            answer = self._cache.get(msgspec.msgpack.encode(task))
            if answer is None:
                return self._thread.submit(self.compile, task)
            known.set_result(_grammar_of(answer))
        except InvalidRequest as error:
            known.set_exception(error)
        return known

    def close(self) -> None:
        """End the worker; another one starts when it is needed."""
        with self._lock:
            self._drop_worker()

    def _ask(self, body: bytes, task: GrammarTask) -> Answer:
        worker = self._worker or _Worker(self._command, self._limits)
        self._worker = worker
        try:
            return msgspec.msgpack.decode(worker.ask(body), type=Answer)
        except WorkerFailed as error:
            self._drop_worker()
            name = task.param.rpartition(".")[2]
            raise InvalidRequest(f"{name}: {error}", param=task.param) from None

    def _drop_worker(self) -> None:
        if self._worker is not None:
            self._worker.close()
        self._worker = None


def _grammar_of(answer: Answer) -> str:
    if answer.error:
        raise InvalidRequest(answer.error, param=answer.param)
    return answer.grammar


class _Worker:
    """One process. Raises `OctavoError` if it does not start."""

    def __init__(self, command: Sequence[str], limits: FrontLimits) -> None:
        self._seconds = limits.grammar_seconds
        given = WorkerLimits(
            limits.grammar_seconds, limits.grammar_memory_bytes, limits.max_schema_depth
        )
        self._process = subprocess.Popen(
            [*command, msgspec.json.encode(given).decode()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
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
        return self._read_frame(self._seconds)

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
                raise WorkerFailed(
                    "takes too long to compile (see --grammar-seconds); it must be simpler"
                )
            chunk = source.raw.read(size - len(data))  # type: ignore[attr-defined]
            if not chunk:
                raise WorkerFailed(
                    "takes too much memory to compile (see --grammar-memory-bytes); it must be"
                    " simpler"
                )
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
    """The answers used last, by what was asked, up to so many bytes of both. Thread-safe."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._num_bytes = 0
        self._answers: OrderedDict[bytes, Answer] = OrderedDict()

    def get(self, key: bytes) -> Answer | None:
        with self._lock:
            answer = self._answers.get(key)
            if answer is not None:
                self._answers.move_to_end(key)
            return answer

    def put(self, key: bytes, answer: Answer) -> None:
        with self._lock:
            if key in self._answers:
                return
            self._answers[key] = answer
            self._num_bytes += _size_of(key, answer)
            while self._num_bytes > self._max_bytes:
                self._num_bytes -= _size_of(*self._answers.popitem(last=False))


def _size_of(key: bytes, answer: Answer) -> int:
    return len(key) + len(answer.grammar) + len(answer.error)
