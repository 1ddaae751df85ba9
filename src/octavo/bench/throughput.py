"""Offline throughput: how long an engine takes over many prompts given at once."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from octavo.bench.lengths import Lengths
from octavo.core.outputs import EngineOutputs
from octavo.core.request import EngineRequest
from octavo.core.sampling_params import SamplingParams
from octavo.errors import OctavoError


class SteppedEngine(Protocol):
    """What is measured: `octavo.engine.engine.Engine`."""

    @property
    def has_work(self) -> bool: ...
    def submit(self, request: EngineRequest) -> None: ...
    def step(self) -> EngineOutputs: ...


class ThroughputError(OctavoError):
    """A request failed, so that the run measured something else."""


@dataclass(frozen=True, slots=True)
class Run:
    seconds: float
    num_requests: int
    num_prompt_tokens: int
    num_output_tokens: int


def make_requests(
    num_prompts: int,
    input_lengths: Lengths,
    output_lengths: Lengths,
    vocab_size: int,
    seed: int,
) -> list[EngineRequest]:
    """Random ids, each answered to its full drawn length."""
    source = random.Random(seed)
    requests = []
    for index in range(num_prompts):
        length, tokens = input_lengths.draw(source), output_lengths.draw(source)
        requests.append(
            EngineRequest(
                request_id=f"bench-{index}",
                prompt_token_ids=[source.randrange(vocab_size) for _ in range(length)],
                sampling_params=SamplingParams(temperature=0.0, max_tokens=tokens, ignore_eos=True),
                arrival_time=time.time(),
            )
        )
    return requests


def run_throughput(
    engine: SteppedEngine,
    requests: Sequence[EngineRequest],
    on_finished: Callable[[int, int], None] | None = None,
) -> Run:
    """Raises ThroughputError when a request ends in an error."""
    num_finished = num_outputs = 0
    start = time.perf_counter()
    for request in requests:
        engine.submit(request)
    while engine.has_work:
        for output in engine.step().outputs:
            num_outputs += len(output.token_ids)
            if output.finish_reason is None:
                continue
            if output.finish_reason == "error":
                raise ThroughputError(f"{output.request_id} failed: {output.error}")
            num_finished += 1
            if on_finished is not None:
                on_finished(num_finished, len(requests))
    seconds = time.perf_counter() - start
    num_prompt_tokens = sum(len(request.prompt_token_ids) for request in requests)
    return Run(seconds, num_finished, num_prompt_tokens, num_outputs)
