"""A server that is as the simulator thinks is found so, and halves are told apart."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from benchmarks.scheduling import validate_simulator
from benchmarks.scheduling.validate_simulator import (
    Answers,
    Figure,
    Piece,
    compare,
    figures,
    simulated,
)
from octavo.bench.load import COMPLETIONS, Server
from octavo.bench.workload import LoadRequest
from octavo.core.step_load import MeasuredStep, StepLoad
from octavo.simulate.measured import MeasuredTimes, Profile
from octavo.simulate.probe import PageFacts
from octavo.simulate.simulation import Setup
from octavo.simulate.under_load import LoadPlan, Observed

SERVER = Server(base_url="http://127.0.0.1:1", endpoint=COMPLETIONS, model="m")
OUTSIDE_SECONDS = 0.004


def answers(ttft: Sequence[float], seconds: float = 1.0) -> Answers:
    return Answers(
        ttft=ttft,
        tpot=ttft,
        latency=ttft,
        num_prompt_tokens=[8] * len(ttft),
        num_output_tokens=10,
        seconds=seconds,
    )


def test_percentiles_are_those_of_all_requests_together() -> None:
    """The median of two medians would be 5.5."""
    both = figures([answers([1.0, 1.0, 1.0]), answers([10.0])])
    assert both["ttft p50, ms"] == 1000.0
    assert both["output tokens/s"] == 10.0


def test_the_server_differs_from_itself_by_its_halves() -> None:
    figure = Figure(load="1", name="n", server=3.0, halves=(2.0, 4.0), simulator=3.3, forecast=2.4)
    assert figure.own_difference == pytest.approx(1.0)
    assert (figure.error, figure.forecast_error) == pytest.approx((0.1, -0.2))


def test_a_piece_is_sent_again_in_other_words() -> None:
    piece = Piece([LoadRequest("a b c", 3, 4)], [0.0])
    first, second = (piece.in_words(half)[0] for half in range(2))
    assert (first.prompt, second.prompt) == ("a b c", "b c a")
    assert replace(second, prompt="a b c") == first


def machine(slowness: float, outside_seconds: float = OUTSIDE_SECONDS) -> Setup:
    profile = Profile(
        model="m",
        machine="x",
        knots=[(1, 0.005 * slowness), (501, 0.255 * slowness)],
        decode_attended_seconds=0.0,
        prompt_attended_seconds=0.0,
        request_seconds=outside_seconds,
    )
    return Setup(times=MeasuredTimes(profile), num_pages=1000)


def steps(slowness: float) -> list[MeasuredStep]:
    """Of a machine that says how slow it is."""
    return [MeasuredStep(StepLoad(1, 1, 1, 1, 0, 1), slowness)]


class FakeServer:
    """As the simulator thinks, between the rounds twice as fast, and 1.2 times as slow in the
    second ones."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.halves: list[int] = []
        for fake in (self.send, self.observe_once, self.page_facts, self.setup_of):
            monkeypatch.setattr(validate_simulator, fake.__name__, fake)

    async def send(self, _: Server, piece: Piece, half: int) -> Answers:
        self.halves.append(half)
        slowness = (1.0, 1.2)[half]
        lengths = [one.num_prompt_tokens for one in piece.requests]
        return replace(simulated(machine(slowness), piece, lengths), steps=steps(slowness))

    async def observe_once(self, _: Server, plan: LoadPlan, number: int) -> Observed:
        assert (plan.num_asked, number >= 0) == (1, True)
        return Observed(steps(0.5), OUTSIDE_SECONDS)

    async def page_facts(self, _: Server) -> PageFacts:
        return PageFacts(1000, [0])

    def setup_of(self, observed: Observed, _: PageFacts) -> Setup:
        return machine(observed.steps[0].seconds, observed.outside_seconds)


def test_rounds_are_predicted_with_their_pair_and_forecast_with_what_lay_between(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = FakeServer(monkeypatch)
    arguments = argparse.Namespace(
        input_len="uniform:8:48", output_len="uniform:8:24", rates=[6.0, 9.0]
    )
    arguments.pairs, arguments.requests = 2, 20
    found = asyncio.run(compare(SERVER, arguments))
    assert server.halves == [0, 0, 1, 1, 0, 0, 1, 1]
    assert len(found) == 2 * 7
    for figure in found:
        assert figure.error == pytest.approx(0.0, abs=1e-9)
        if figure.name.endswith("ms"):
            assert figure.own_difference > 0.15
            assert figure.forecast_error < -0.35
