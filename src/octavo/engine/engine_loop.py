"""Steps an engine on one thread: takes commands from a queue, hands out what each step said.

The same loop runs in this process and in the worker process. Knows neither.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Callable
from typing import Protocol

import msgspec

from octavo.core.outputs import EngineOutputs, EngineStats, SequenceOutput
from octavo.core.request import EngineRequest
from octavo.errors import RequestError


class AbortRequest(msgspec.Struct, frozen=True, tag="abort"):
    request_id: str


class ResetPrefixCache(msgspec.Struct, frozen=True, tag="reset_prefix_cache"):
    pass


class StopEngine(msgspec.Struct, frozen=True, tag="stop"):
    pass


Command = EngineRequest | AbortRequest | ResetPrefixCache | StopEngine


class SteppedEngine(Protocol):
    """What `engine.engine.Engine` offers to whoever steps it."""

    @property
    def has_work(self) -> bool: ...

    def submit(self, request: EngineRequest) -> None: ...

    def abort(self, request_id: str) -> None: ...

    def reset_prefix_cache(self) -> None: ...

    def step(self) -> EngineOutputs: ...

    def stats(self) -> EngineStats: ...

    def close(self) -> None: ...


class EngineLoop:
    """`put` may be called from any thread; `run` owns the engine until it returns."""

    def __init__(self, engine: SteppedEngine, emit: Callable[[EngineOutputs], None]) -> None:
        self._engine = engine
        self._emit = emit
        self._commands: queue.SimpleQueue[Command] = queue.SimpleQueue()
        self._busy_since: float | None = None

    @property
    def stalled_seconds(self) -> float:
        """How long there has been work and no step has ended; 0 when idle. Any thread may ask."""
        busy_since = self._busy_since
        return 0.0 if busy_since is None else time.monotonic() - busy_since

    def put(self, command: Command) -> None:
        self._commands.put(command)

    def run(self) -> None:
        """Close the engine and return after `StopEngine`. What it raises in a step goes through."""
        while self._take_commands():
            if self._engine.has_work:
                self._emit(self._engine.step())
            self._busy_since = time.monotonic()
        self._engine.close()

    def _take_commands(self) -> bool:
        """Carry out all waiting commands; wait for one when there is nothing to compute."""
        if not self._engine.has_work and not self._carry_out(self._wait_command()):
            return False
        while not self._commands.empty():
            if not self._carry_out(self._commands.get_nowait()):
                return False
        return True

    def _wait_command(self) -> Command:
        self._busy_since = None
        command = self._commands.get()
        self._busy_since = time.monotonic()
        return command

    def _carry_out(self, command: Command) -> bool:
        match command:
            case EngineRequest():
                self._submit(command)
            case AbortRequest():
                self._engine.abort(command.request_id)
            case ResetPrefixCache():
                self._engine.reset_prefix_cache()
            case StopEngine():
                return False
        return True

    def _submit(self, request: EngineRequest) -> None:
        """One bad request gets one error; the others never notice."""
        try:
            self._engine.submit(request)
        except RequestError as error:
            refused = [
                SequenceOutput(
                    request_id=request.request_id,
                    index=index,
                    finish_reason="error",
                    error=error.message,
                )
                for index in range(request.sampling_params.n)
            ]
            self._emit(EngineOutputs(outputs=refused, stats=self._engine.stats()))
