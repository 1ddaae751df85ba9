"""What the doors see of an engine, wherever it runs. Knows no process, thread or pipe.

Two implementations: `engine.in_process` and `engine.child`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from octavo.core.outputs import EngineFacts, EngineOutputs, EngineStats
from octavo.core.request import EngineRequest
from octavo.engine.streams import OutputStream


class EngineObserver(Protocol):
    """Hears of everything that happens, on the event loop's thread. Must not block or raise."""

    def submitted(self, request: EngineRequest) -> None: ...

    def stepped(self, outputs: EngineOutputs) -> None: ...

    def lost(self, request_ids: Iterable[str]) -> None:
        """The engine died with these requests open."""


class SilentObserver:
    """Listens to nothing."""

    def submitted(self, request: EngineRequest) -> None: ...

    def stepped(self, outputs: EngineOutputs) -> None: ...

    def lost(self, request_ids: Iterable[str]) -> None: ...


class EngineClient(Protocol):
    """All methods belong to the event loop that called `start`."""

    def observe(self, observer: EngineObserver) -> None:
        """Tell `observer` of all that happens from now on. Before that, nobody hears of it."""

    async def start(self) -> EngineFacts:
        """Return when the engine takes requests.

        Raises `ConfigError`, `WeightError` or `TokenizerError` as loading did, else `EngineDead`.
        """

    def submit(self, request: EngineRequest) -> OutputStream:
        """Hand over a request at once and return its outputs. Raises `EngineDead`."""

    def abort(self, request_id: str) -> None:
        """Stop a request in whatever state it is; an unknown id is nobody's fault."""

    def reset_prefix_cache(self) -> None:
        """Forget all cached prefixes; what is submitted later finds none. Raises `EngineDead`."""

    def stats(self) -> EngineStats:
        """The latest snapshot."""

    async def check_health(self) -> None:
        """Raises `EngineDead` when the engine does not answer, is loading or is gone."""

    async def wait_gone(self) -> None:
        """Return when the engine has died for good and will not be restarted."""

    async def shutdown(self) -> None:
        """Stop the engine; open requests fail. Idempotent."""
