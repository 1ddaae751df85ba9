"""An engine for tests of its clients: it says a prompt's ids back, one per step, and obeys a few
that tell it to fail. Run as a program, it is a worker that holds such an engine.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable

from octavo.config.engine import EngineConfig
from octavo.core.outputs import EngineOutputs, EngineStats, RequestTimes, SequenceOutput
from octavo.core.request import EngineRequest
from octavo.core.sampling_params import SamplingParams
from octavo.engine.worker import serve
from octavo.errors import ConfigError, InvalidRequest, WeightError

DIE, HANG, RAISE, REFUSE, FOREVER = 1001, 1002, 1003, 1004, 1005
"""Token ids that are commands: end the process, sleep in a step, raise in a step, refuse the
request, and go on until aborted."""


class TinyEngine:
    """Implements `SteppedEngine`."""

    def __init__(self, step_seconds: float = 0.0) -> None:
        self._step_seconds = step_seconds
        self._requests: dict[str, tuple[EngineRequest, int]] = {}
        self._said: list[SequenceOutput] = []
        self._num_steps = 0
        self._num_cached_pages = 5
        self.is_closed = False

    @property
    def has_work(self) -> bool:
        return bool(self._requests or self._said)

    def submit(self, request: EngineRequest) -> None:
        if REFUSE in request.prompt_token_ids:
            raise InvalidRequest("refused by the engine")
        self._requests[request.request_id] = (request, 0)

    def abort(self, request_id: str) -> None:
        if self._requests.pop(request_id, None) is not None:
            self._said.append(SequenceOutput(request_id=request_id, finish_reason="abort"))

    def reset_prefix_cache(self) -> None:
        self._num_cached_pages = 0

    def close(self) -> None:
        self.is_closed = True

    def step(self) -> EngineOutputs:
        time.sleep(self._step_seconds)
        self._num_steps += 1
        outputs, self._said = self._said, []
        for request_id, (request, position) in list(self._requests.items()):
            outputs.append(self._advance(request_id, request, position))
        finished = [
            (output.request_id, 0, RequestTimes(num_generation_tokens=1))
            for output in outputs
            if output.finish_reason
        ]
        return EngineOutputs(outputs=outputs, finished=finished, stats=self.stats())

    def stats(self) -> EngineStats:
        num_running = len(self._requests)
        return EngineStats(
            num_running=num_running,
            num_pages=8,
            num_used_pages=num_running,
            num_cached_pages=self._num_cached_pages,
            num_steps=self._num_steps,
        )

    def _advance(self, request_id: str, request: EngineRequest, position: int) -> SequenceOutput:
        ids = request.prompt_token_ids
        token_id = ids[position]
        _obey(token_id)
        is_last = position == len(ids) - 1 and token_id != FOREVER
        if is_last:
            del self._requests[request_id]
        else:
            next_position = position if token_id == FOREVER else position + 1
            self._requests[request_id] = (request, next_position)
        return SequenceOutput(
            request_id=request_id,
            token_ids=[token_id],
            text=f"{token_id} ",
            finish_reason="stop" if is_last else None,
        )


def _obey(token_id: int) -> None:
    if token_id == DIE:
        os.kill(os.getpid(), signal.SIGKILL)
    if token_id == HANG:
        time.sleep(3600)
    if token_id == RAISE:
        raise RuntimeError("secret detail of a step")


def tiny_request(request_id: str, *token_ids: int) -> EngineRequest:
    return EngineRequest(
        request_id=request_id,
        prompt_token_ids=list(token_ids),
        sampling_params=SamplingParams(),
        arrival_time=time.time(),
    )


def load(config: EngineConfig, progress: Callable[[int, int], None]) -> TinyEngine:
    """What the model's name asks for."""
    if config.model == "bad-config":
        raise ConfigError("the option is bad")
    if config.model == "bad-weights":
        raise WeightError("model.gguf", "the tensor is bad", offset=7)
    if config.model == "crash":
        os.kill(os.getpid(), signal.SIGKILL)
    progress(1, 2)
    progress(2, 2)
    return TinyEngine(step_seconds=0.01 if config.model == "slow" else 0.0)


if __name__ == "__main__":
    sys.exit(serve(int(sys.argv[1]), load))
