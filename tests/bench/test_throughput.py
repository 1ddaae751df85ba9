"""Offline throughput on the fake engine."""

from __future__ import annotations

import pytest

from octavo.bench.lengths import Fixed, Uniform
from octavo.bench.throughput import ThroughputError, make_requests, run_throughput
from octavo.core.outputs import EngineOutputs, SequenceOutput
from octavo.core.request import EngineRequest
from octavo.engine.engine import Engine
from tests.fakes import FakeRunner, make_scheduler


def test_all_prompts_are_answered_in_full() -> None:
    scheduler = make_scheduler()
    kv = scheduler.kv.stats()
    engine = Engine(scheduler, FakeRunner(kv.num_pages, 16), None)
    requests = make_requests(5, Uniform(3, 9), Fixed(4), vocab_size=100, seed=1)
    finished: list[tuple[int, int]] = []
    run = run_throughput(engine, requests, lambda done, total: finished.append((done, total)))
    assert (run.num_requests, run.num_output_tokens) == (5, 20)
    assert run.num_prompt_tokens == sum(len(request.prompt_token_ids) for request in requests)
    assert run.seconds > 0
    assert finished == [(done, 5) for done in range(1, 6)]
    assert not engine.has_work


def test_requests_are_the_same_for_the_same_seed() -> None:
    def prompts(seed: int) -> list[list[int]]:
        made = make_requests(5, Uniform(3, 9), Fixed(4), vocab_size=100, seed=seed)
        return [request.prompt_token_ids for request in made]

    assert prompts(1) == prompts(1)
    assert prompts(1) != prompts(2)


class BrokenEngine:
    has_work = True

    def submit(self, request: EngineRequest) -> None:
        self._request_id = request.request_id

    def step(self) -> EngineOutputs:
        output = SequenceOutput(request_id=self._request_id, finish_reason="error", error="broke")
        return EngineOutputs(outputs=[output])


def test_a_failed_request_fails_the_run() -> None:
    requests = make_requests(1, Fixed(3), Fixed(4), vocab_size=100, seed=1)
    with pytest.raises(ThroughputError, match="broke"):
        run_throughput(BrokenEngine(), requests)
