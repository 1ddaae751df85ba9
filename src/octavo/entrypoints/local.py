"""An engine in this process, stepped by whoever reads its outputs. For `LLM` and the terminal.

Knows no prompt format and prints nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Iterable, Iterator

from octavo.config.engine import EngineConfig
from octavo.core.outputs import EngineStats, RequestTimes, SequenceOutput
from octavo.core.request import EngineRequest
from octavo.engine.factory import make_engine
from octavo.engine.front import Front, make_front
from octavo.engine.model_file import locate
from octavo.errors import EngineDead
from octavo.runner.load import load_runner
from octavo.weights.gguf import GGUFFile

LoadProgress = Callable[[int, int], None]
OnFinished = Callable[[str, int, RequestTimes], None]


class LocalEngine:
    """Front and engine of one model. One thread uses it at a time."""

    def __init__(self, config: EngineConfig, progress: LoadProgress | None = None) -> None:
        with GGUFFile.open(locate(config)) as file:
            self.front: Front = make_front(file, config)
            config, tokenizer = self.front.resolved.config, self.front.tokenizer
            self.runner = load_runner(file, config, tokenizer.stop_token_ids, progress)
        self._is_closed = False
        self._engine = make_engine(config, self.runner, tokenizer)

    def stats(self) -> EngineStats:
        return self._engine.stats()

    def run(
        self,
        requests: Iterable[EngineRequest],
        *,
        max_open: int | None = None,
        on_finished: OnFinished | None = None,
    ) -> Generator[SequenceOutput]:
        """Yield the outputs of `requests` as they come, mixed, until all are finished.

        At most `max_open` requests are in the engine at once; without it all are submitted first,
        and none is run if one is refused. Whoever stops reading early aborts what is still open.
        """
        waiting = iter(requests)
        open_sequences: dict[str, int] = {}
        try:
            while True:
                self._submit(waiting, open_sequences, max_open)
                if not open_sequences:
                    return
                outputs = self._engine.step()
                for finished in outputs.finished:
                    if on_finished is not None:
                        on_finished(*finished)
                yield from _counted(outputs.outputs, open_sequences)
        finally:
            self._abort(list(open_sequences))

    def reset_prefix_cache(self) -> None:
        self._engine.reset_prefix_cache()

    def close(self) -> None:
        """Save what outlives the engine, and give its memory and threads back. Idempotent."""
        if self._is_closed:
            return
        self._is_closed = True
        self._engine.close()
        self.runner.close()

    def _submit(
        self,
        waiting: Iterator[EngineRequest],
        open_sequences: dict[str, int],
        max_open: int | None,
    ) -> None:
        room = None if max_open is None else max_open - len(open_sequences)
        for request in itertools.islice(waiting, room):
            self._engine.submit(request)
            open_sequences[request.request_id] = request.sampling_params.n

    def _abort(self, request_ids: Iterable[str]) -> None:
        for request_id in request_ids:
            self._engine.abort(request_id)
        try:
            while self._engine.has_work:
                self._engine.step()
        except EngineDead:
            return  # nothing runs any more, which is what was asked for


def _counted(
    outputs: Iterable[SequenceOutput], open_sequences: dict[str, int]
) -> Iterator[SequenceOutput]:
    """Yield `outputs`, counting down `open_sequences` at each terminal one."""
    for output in outputs:
        if output.finish_reason is not None:
            open_sequences[output.request_id] -= 1
            if not open_sequences[output.request_id]:
                del open_sequences[output.request_id]
        yield output
