"""An engine in this process, stepped by one background thread. Knows no HTTP and no pipe."""

from __future__ import annotations

import asyncio
import logging
import threading

from octavo.core.outputs import EngineFacts, EngineOutputs, EngineStats
from octavo.core.request import EngineRequest
from octavo.engine.client import EngineObserver, SilentObserver
from octavo.engine.engine_loop import (
    AbortRequest,
    EngineLoop,
    ResetPrefixCache,
    SteppedEngine,
    StopEngine,
)
from octavo.engine.streams import OutputRouter, OutputStream
from octavo.errors import EngineDead

logger = logging.getLogger(__name__)


class InProcessEngine:
    """Takes an engine that is loaded already. After an error in a step it stays dead."""

    def __init__(self, engine: SteppedEngine) -> None:
        self._observer: EngineObserver = SilentObserver()
        self._engine_loop = EngineLoop(engine, self._emit)
        self._router = OutputRouter(self.abort)
        self._stats = engine.stats()
        self._thread = threading.Thread(target=self._run, name="octavo-engine", daemon=True)
        self._death: EngineDead | None = None
        self._gone = asyncio.Event()

    def observe(self, observer: EngineObserver) -> None:
        self._observer = observer

    async def start(self) -> EngineFacts:
        self._event_loop = asyncio.get_running_loop()
        self._thread.start()
        return EngineFacts(num_pages=self._stats.num_pages)

    def submit(self, request: EngineRequest) -> OutputStream:
        if self._death is not None:
            raise self._death
        stream = self._router.open(request)
        self._observer.submitted(request)
        self._engine_loop.put(request)
        return stream

    def abort(self, request_id: str) -> None:
        self._engine_loop.put(AbortRequest(request_id))

    def reset_prefix_cache(self) -> None:
        if self._death is not None:
            raise self._death
        self._engine_loop.put(ResetPrefixCache())

    def stats(self) -> EngineStats:
        return self._stats

    async def check_health(self) -> None:
        if self._death is not None:
            raise self._death

    async def wait_gone(self) -> None:
        await self._gone.wait()

    async def shutdown(self) -> None:
        self._engine_loop.put(StopEngine())
        await asyncio.to_thread(self._thread.join)
        self._die(EngineDead("the engine was shut down"))

    def _run(self) -> None:
        try:
            self._engine_loop.run()
        except Exception:
            logger.exception("the engine failed in a step")
            error = EngineDead("the engine failed; the request was not finished")
            self._event_loop.call_soon_threadsafe(self._die, error)

    def _emit(self, outputs: EngineOutputs) -> None:
        self._event_loop.call_soon_threadsafe(self._deliver, outputs)

    def _deliver(self, outputs: EngineOutputs) -> None:
        self._stats = outputs.stats
        self._observer.stepped(outputs)
        self._router.deliver(outputs)

    def _die(self, error: EngineDead) -> None:
        if self._death is None:
            self._death = error
            self._observer.lost(self._router.request_ids)
            self._router.fail_all(error)
            self._gone.set()
