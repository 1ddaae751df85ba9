"""What a server measures of itself becomes a profile, and its mean is what counts."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator

import msgspec
import pytest

import octavo.simulate.under_load
from octavo.bench.connections import Target
from octavo.bench.lengths import Fixed
from octavo.bench.load import COMPLETIONS, LoadError, Outcome, Server
from octavo.core.step_load import MeasuredStep, StepLoad
from octavo.engine.step_log import StepReport
from octavo.simulate.from_steps import STEPS_PER_SAMPLE, step_samples
from octavo.simulate.measured import MAX_KNOTS, MeasuredTimes, choose_knots, fit
from octavo.simulate.under_load import (
    LoadPlan,
    Observed,
    observe,
    profile_of,
    step_report,
    together,
)

SERVER = Server(base_url="http://127.0.0.1:1", endpoint=COMPLETIONS, model="m")


ARRIVAL_SECONDS = 0.003


def seconds_of(load: StepLoad) -> float:
    attended = 2e-6 * load.num_decode_attended + 1e-6 * load.num_prompt_attended
    return 0.004 + 0.0004 * load.num_tokens + attended


def steps(number: int, noise: float, seed: int = 0) -> Iterator[MeasuredStep]:
    """Decodes, with a prompt among every fourth; a tenth of all takes `noise` times as long."""
    source = random.Random(seed)
    for _ in range(number):
        decodes, context = source.randint(1, 24), source.randint(20, 200)
        prompt = source.randint(20, 200) if source.random() < 0.25 else 0
        attended = prompt * (prompt + 1) // 2
        sequences = decodes + bool(prompt)
        rows = (decodes + prompt, sequences, sequences)
        load = StepLoad(*rows, decodes * context, attended, decodes * context + prompt)
        seconds = seconds_of(load) * (noise if source.random() < 0.1 else 1.0)
        num_arrived = int(source.random() < 0.2)
        yield MeasuredStep(load, seconds + ARRIVAL_SECONDS * num_arrived, num_arrived)


def test_steps_of_any_mixture_tell_what_each_part_costs() -> None:
    times = MeasuredTimes(fit(list(step_samples(steps(2000, noise=1.0))), "m", "x"))
    for load in (
        StepLoad(1, 1, 1, 100, 0, 100),
        StepLoad(16, 16, 16, 1600, 0, 1600),
        StepLoad(80, 11, 11, 1000, 2485, 1070),
    ):
        assert times.seconds(load) == pytest.approx(seconds_of(load), rel=0.06)
    assert times.arrival_seconds == pytest.approx(ARRIVAL_SECONDS, rel=0.15)


def test_a_step_takes_what_steps_take_on_average() -> None:
    """A tenth of all takes three times as long: the mean is 1.2 times the usual."""
    times = MeasuredTimes(fit(list(step_samples(steps(4000, noise=3.0))), "m", "x"))
    others = list(steps(1000, noise=1.0, seed=1))
    predicted = sum(times.seconds(one.load) for one in others)
    usual = sum(seconds_of(one.load) for one in others)
    assert predicted == pytest.approx(1.2 * usual, rel=0.05)


def test_steps_alike_are_taken_together_and_nothing_is_lost() -> None:
    told = list(steps(1000, noise=2.0))
    samples = list(step_samples(told))
    assert len(samples) < 1000 / STEPS_PER_SAMPLE + 100
    assert sum(len(one.loads) for one in samples) == 1000
    assert sum(one.seconds for one in samples) == pytest.approx(sum(one.seconds for one in told))


def test_knots_are_few_and_were_all_measured() -> None:
    assert choose_knots({5, 1, 9}) == [1, 5, 9]
    counts = set(range(3, 400))
    knots = choose_knots(counts)
    assert knots == sorted(counts & set(knots))
    assert (knots[0], knots[-1]) == (3, 399)
    assert len(knots) <= MAX_KNOTS


class FakeServer:
    """Of known costs: 10 ms to the first token inside of the engine, and outside of it 1 ms alone,
    4 ms in a closed loop, 2 ms among requests that come by chance."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, error: str = "") -> None:
        self._told: list[MeasuredStep] = []
        self._source = steps(10_000, noise=1.0)
        self._engine_seconds = 0.0
        self._error = error
        self.crowds: list[int | None] = []
        monkeypatch.setattr(octavo.simulate.under_load, "run_load", self.run_load)
        monkeypatch.setattr(octavo.simulate.under_load, "get", self.get)

    async def run_load(
        self,
        _: Server,
        requests: list[object],
        *,
        max_concurrency: int | None = None,
        arrivals: list[float] | None = None,
    ) -> list[Outcome]:
        assert (max_concurrency is None) == (arrivals is not None)
        self.crowds.append(max_concurrency)
        self._told += [next(self._source) for _ in range(100)]
        self._engine_seconds += 0.01 * len(requests)
        outside = {None: 0.002, 1: 0.001}.get(max_concurrency, 0.004)
        first = 0.01 + outside
        return [Outcome(5, 2, [first, first + 0.001], error=self._error) for _ in requests]

    async def get(self, target: Target, _: object) -> bytes:
        if target.path == "/metrics":
            half = self._engine_seconds / 2
            lines = [
                f'vllm:request_{name}_time_seconds_sum{{model_name="m"}} {half}'
                for name in ("queue", "prefill", "queue_unheard_of")
            ]
            return "\n".join(lines).encode()
        return msgspec.json.encode(StepReport(len(self._told), list(self._told)))


PLAN = LoadPlan(input_lengths=Fixed(4), output_lengths=Fixed(2), clients=(2, 3), rounds=2)


def test_a_server_under_load_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    server = FakeServer(monkeypatch)
    seen: list[tuple[int, int]] = []
    observed = asyncio.run(observe(SERVER, PLAN, lambda *counts: seen.append(counts)))
    assert server.crowds == [1, 2, 3, None, 1, 2, 3, None]
    assert seen == [(1, 2), (2, 2)]
    assert len(observed.steps) == 800
    profile = profile_of(observed, "m", "x")
    assert profile.request_seconds == pytest.approx(0.002)
    load = StepLoad(8, 8, 8, 800, 0, 800)
    assert MeasuredTimes(profile).seconds(load) == pytest.approx(seconds_of(load), rel=0.1)


def test_rounds_are_taken_together_by_their_median() -> None:
    rounds = [Observed(list(steps(2, 1.0)), outside) for outside in (0.001, 0.9, 0.002)]
    both = together(rounds)
    assert (len(both.steps), both.outside_seconds) == (6, 0.002)


def test_a_server_that_fails_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeServer(monkeypatch, error="HTTP 500")
    with pytest.raises(LoadError, match="failed to answer: HTTP 500"):
        asyncio.run(observe(SERVER, PLAN))


def test_a_server_that_is_gone_is_an_error() -> None:
    with pytest.raises(LoadError, match="does not answer"):
        asyncio.run(step_report(SERVER))
