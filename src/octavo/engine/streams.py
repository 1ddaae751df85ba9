"""Hands a step's outputs to the requests they belong to, on one event loop.

A slow reader finds what piled up merged into one output per sequence. Knows no engine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from octavo.core.outputs import EngineOutputs, JoinedOutputs, SequenceOutput
from octavo.core.request import EngineRequest
from octavo.errors import EngineDead


class OutputStream:
    """The outputs of one request: an async iterator that ends after every sequence has finished.

    Raises `EngineDead` after what had arrived when the engine died. `close` aborts the request
    unless it has finished. Who reads several streams takes from each, and is told by `on_news`.
    """

    def __init__(self, request_id: str, num_sequences: int, on_close: Callable[[str], None]):
        self.request_id = request_id
        self._num_open = num_sequences
        self._on_close = on_close
        self._pending: dict[int, JoinedOutputs] = {}
        self.error: EngineDead | None = None
        self.on_news: Callable[[], None] = self._wake
        self._waiter: asyncio.Future[None] | None = None
        self._closed = False

    @property
    def has_finished(self) -> bool:
        """Every sequence's terminal output has arrived (though perhaps not been read)."""
        return self._num_open == 0

    def put(self, output: SequenceOutput) -> None:
        earlier = self._pending.get(output.index)
        if earlier is None:
            self._pending[output.index] = JoinedOutputs(output)
        else:
            earlier.add(output)
        if output.finish_reason is not None:
            self._num_open -= 1
        self.on_news()

    def fail(self, error: EngineDead) -> None:
        self.error = error
        self.on_news()

    @property
    def is_over(self) -> bool:
        """Nothing is left to take, and nothing will come."""
        return not self._pending and (self._num_open == 0 or self._closed)

    def take(self) -> list[SequenceOutput]:
        """What has come since the last time, at most one output per sequence."""
        outputs = [pending.output() for pending in self._pending.values()]
        self._pending.clear()
        return outputs

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._on_close(self.request_id)

    def __aiter__(self) -> OutputStream:
        return self

    async def __anext__(self) -> SequenceOutput:
        while not self._pending:
            if self.error is not None:
                raise self.error
            if self.is_over:
                raise StopAsyncIteration
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        return self._pending.pop(next(iter(self._pending))).output()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class OutputRouter:
    """Streams by request id. `abort` is called for a stream that is closed before its end."""

    def __init__(self, abort: Callable[[str], None]) -> None:
        self._abort = abort
        self._streams: dict[str, OutputStream] = {}

    @property
    def request_ids(self) -> Iterable[str]:
        return tuple(self._streams)

    def open(self, request: EngineRequest) -> OutputStream:
        assert request.request_id not in self._streams, "request ids are ours and unique"
        stream = OutputStream(request.request_id, request.sampling_params.n, self._close)
        self._streams[request.request_id] = stream
        return stream

    def deliver(self, outputs: EngineOutputs) -> None:
        for output in outputs.outputs:
            stream = self._streams.get(output.request_id)
            if stream is None:
                continue
            stream.put(output)
            if stream.has_finished:
                del self._streams[output.request_id]

    def fail_all(self, error: EngineDead) -> None:
        streams, self._streams = self._streams, {}
        for stream in streams.values():
            stream.fail(error)

    def _close(self, request_id: str) -> None:
        if self._streams.pop(request_id, None) is not None:
            self._abort(request_id)
