"""An engine in a supervised process: watches it, fails its requests when it dies, restarts it.

Knows frames and one worker's life (`engine.worker_link`), but nothing of what an engine computes.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from octavo.config.engine import EngineConfig
from octavo.core.outputs import EngineFacts, EngineOutputs, EngineStats
from octavo.core.request import EngineRequest
from octavo.engine.client import EngineObserver, SilentObserver
from octavo.engine.engine_loop import AbortRequest, ResetPrefixCache, StopEngine
from octavo.engine.frames import LoadFailed, SubmitRequest
from octavo.engine.streams import OutputRouter, OutputStream
from octavo.engine.worker_link import Progress, WorkerLink
from octavo.errors import ConfigError, EngineDead, OctavoError, TokenizerError, WeightError

logger = logging.getLogger(__name__)

WORKER_COMMAND = (sys.executable, "-m", "octavo.engine.worker")

OVERSLEPT_SECONDS = 0.5
"""Waking so much later than asked, a process has stood still."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisionLimits:
    """Silent for `silence_seconds`: reported unhealthy, so that a balancer looks elsewhere. On a
    machine with too much to do that passes, so that new requests are refused only after
    `refusal_seconds`. Nothing is ended by either.

    It gets `stop_seconds` to end when it is told to, and `save_seconds` more if it keeps its prefix
    cache on disk.

    Silent or without a finished step for `stall_seconds`: killed and restarted. More than
    `max_num_crashes` within `crash_window_seconds`: given up.
    """

    silence_seconds: float = 1.0
    refusal_seconds: float = 5.0
    stall_seconds: float = 60.0
    watch_interval_seconds: float = 0.25
    max_num_crashes: int = 5
    crash_window_seconds: float = 60.0
    first_backoff_seconds: float = 0.1
    max_backoff_seconds: float = 5.0
    stop_seconds: float = 5.0
    save_seconds: float = 60.0


class ChildEngine:
    """`EngineClient` over a worker process. `command` is for tests."""

    def __init__(
        self,
        config: EngineConfig,
        *,
        limits: SupervisionLimits | None = None,
        on_progress: Progress | None = None,
        command: Sequence[str] = WORKER_COMMAND,
    ) -> None:
        self._config = config
        self._observer: EngineObserver = SilentObserver()
        self._limits = limits or SupervisionLimits()
        self._on_progress = on_progress
        self._command = command
        self._router = OutputRouter(self.abort)
        self._stats = EngineStats()
        self._crash_times: deque[float] = deque(maxlen=self._limits.max_num_crashes)
        self._link: WorkerLink | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._status = "the engine has not been started"
        self._is_ready = False
        self._gone = asyncio.Event()

    @property
    def process_id(self) -> int | None:
        return None if self._link is None else self._link.process_id

    def observe(self, observer: EngineObserver) -> None:
        self._observer = observer

    async def start(self) -> EngineFacts:
        facts = await self._launch()
        self._tasks = [asyncio.create_task(self._supervise()), asyncio.create_task(self._watch())]
        return facts

    def submit(self, request: EngineRequest) -> OutputStream:
        self._check(self._limits.refusal_seconds)
        assert self._link is not None
        stream = self._router.open(request)
        self._observer.submitted(request)
        self._link.send(SubmitRequest(request))
        return stream

    def abort(self, request_id: str) -> None:
        if self._link is not None:
            self._link.send(AbortRequest(request_id))

    def reset_prefix_cache(self) -> None:
        self._check(self._limits.refusal_seconds)
        assert self._link is not None
        self._link.send(ResetPrefixCache())

    def stats(self) -> EngineStats:
        return self._stats

    async def check_health(self) -> None:
        self._check(self._limits.silence_seconds)

    async def wait_gone(self) -> None:
        await self._gone.wait()

    async def shutdown(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._tasks = []
        if self._link is not None:
            self._link.send(StopEngine())
            await self._wait_end(self._link)
            self._link = None
        self._lose("the engine was shut down")

    def _check(self, max_silent_seconds: float) -> None:
        if not self._is_ready or self._link is None:
            raise EngineDead(self._status)
        silent_seconds = self._link.silent_seconds
        if silent_seconds > max_silent_seconds:
            raise EngineDead(f"the engine has not answered for {silent_seconds:.1f} seconds")

    async def _launch(self) -> EngineFacts:
        """Start a process and wait for its engine; the process is gone if this raises."""
        self._status = "the engine is loading the model"
        self._link = WorkerLink(self._deliver, self._on_progress)
        try:
            await self._link.launch(self._command, self._config)
            answer = await self._link.ready
        except BaseException:
            self._link.kill()
            raise
        match answer:
            case EngineFacts():
                self._is_ready = True
                return answer
            case LoadFailed():
                await self._wait_end(self._link)
                raise _error_of(answer)
            case None:
                raise EngineDead(
                    f"the engine's process ended with status {self._link.exit_status} "
                    "while it was loading"
                )

    async def _wait_end(self, link: WorkerLink) -> None:
        saves = bool(self._config.prefix_cache_dir)
        seconds = self._limits.stop_seconds + (self._limits.save_seconds if saves else 0.0)
        try:
            await asyncio.wait_for(link.closed.wait(), seconds)
        except TimeoutError:
            link.kill()
            await link.closed.wait()

    def _deliver(self, outputs: EngineOutputs) -> None:
        self._stats = outputs.stats
        self._observer.stepped(outputs)
        self._router.deliver(outputs)

    def _lose(self, status: str) -> None:
        """Nothing that is open can be finished any more."""
        self._is_ready = False
        self._status = status
        self._stats = EngineStats()
        self._observer.lost(self._router.request_ids)
        self._router.fail_all(EngineDead(f"{status}; the request was not finished"))

    async def _supervise(self) -> None:
        backoff_seconds = self._limits.first_backoff_seconds
        while not self._gives_up():
            assert self._link is not None
            await self._link.closed.wait()
            logger.error("the engine's process ended with status %s", self._link.exit_status)
            self._crash_times.append(time.monotonic())
            self._lose("the engine died and is being restarted")
            await asyncio.sleep(backoff_seconds)
            backoff_seconds = await self._relaunch(backoff_seconds)
        self._lose("the engine died too often and was given up")
        self._gone.set()

    async def _relaunch(self, backoff_seconds: float) -> float:
        """Try once more; returns how long to wait before the next attempt."""
        if self._gives_up():
            return backoff_seconds
        try:
            await self._launch()
        except OctavoError as error:
            logger.error("the engine could not be restarted: %s", error)
            return min(2 * backoff_seconds, self._limits.max_backoff_seconds)
        logger.info("the engine runs again, as process %s", self.process_id)
        return self._limits.first_backoff_seconds

    def _gives_up(self) -> bool:
        if len(self._crash_times) < self._limits.max_num_crashes:
            return False
        return self._crash_times[-1] - self._crash_times[0] < self._limits.crash_window_seconds

    async def _watch(self) -> None:
        """Kill a process that lives but does nothing; `_supervise` sees the rest.

        If this process itself stood still (stopped, or a paused container), so may have the other:
        its time begins anew.
        """
        interval = self._limits.watch_interval_seconds
        checked_time = awake_since = time.monotonic()
        while True:
            await asyncio.sleep(interval)
            last_checked, checked_time = checked_time, time.monotonic()
            if checked_time - last_checked > interval + OVERSLEPT_SECONDS:
                awake_since = checked_time
            if not self._is_ready or self._link is None:
                continue
            stuck_seconds = max(self._link.silent_seconds, self._link.stalled_seconds)
            if min(stuck_seconds, checked_time - awake_since) > self._limits.stall_seconds:
                logger.error("the engine made no progress for %.1f seconds", stuck_seconds)
                self._link.kill()


def _error_of(failure: LoadFailed) -> OctavoError:
    """The error as loading raised it. Its message is complete: no constructor may add to it."""
    kinds = {kind.__name__: kind for kind in (ConfigError, TokenizerError, WeightError)}
    kind = kinds.get(failure.kind, OctavoError)
    return kind.__new__(kind, failure.message)
