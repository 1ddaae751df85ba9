"""The simulator beside the real server, and the server beside itself: one machine, equal traces.

    PYTHONPATH=src:. python -m benchmarks.scheduling.validate_simulator [MODEL] [--pairs 5]
        [--shares 0.3 0.5 0.7] [--requests 50] [--input-len uniform:8:48]
        [--output-len uniform:8:24] [--json FILE]

Starts octavo's server and sends Poisson arrivals at shares of its capacity: in each round one piece
of every load, and each piece in two rounds, one after the other, with the same times and lengths
and other words. So the first rounds of all pairs are one half of what the server did, the second
ones the other half, and both saw the same trace on the same drifting machine. By how much their
figures differ is how far the server is from itself.

What the simulator gets beside the trace is a profile fitted to steps that the server has measured:
for each piece, to those of the *other* round of its pair, which answered the same load seconds
before or after. So no round is predicted from itself, and whatever the machine's speed was, it was
the same for both. A step's time is fitted to what was in the step; when requests came, and what
they waited for, is in no profile. What requests spend outside of the engine comes from other
requests, sent between the rounds (closed loops, and some by chance).

The forecast is stricter: one profile for everything, fitted to those other requests alone. What it
is off by more is what the machine's speed changed in between. Answers have their full length.

Percentiles are those of all requests of a load: of 500, five are above the 99th.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from benchmarks.peers.octavo import octavo_server
from benchmarks.peers.server import HttpContender
from octavo.bench.lengths import parse_lengths
from octavo.bench.load import Server, run_load
from octavo.bench.statistics import percentile
from octavo.bench.workload import LoadRequest, Workload, poisson_arrivals
from octavo.config.machine import this_machine
from octavo.core.step_load import MeasuredStep
from octavo.hub.find import find_model
from octavo.simulate.cluster import Source
from octavo.simulate.measured import MeasuredTimes
from octavo.simulate.probe import PageFacts, page_facts
from octavo.simulate.simulation import Setup, simulate
from octavo.simulate.trace import TraceRequest
from octavo.simulate.under_load import (
    LoadPlan,
    Observed,
    observe_once,
    profile_of,
    steps_of,
    together,
)

PERCENTS = (50, 99)
NUM_SATURATING = 200
CLIENTS = (4, 12)
"""Of the closed loops, beside those of one client."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Of a load: requests, and when they are sent."""

    requests: Sequence[LoadRequest]
    arrivals: Sequence[float]

    def in_words(self, number: int) -> list[LoadRequest]:
        """With the words in another order, which the prefix cache does not know."""
        return [replace(one, prompt=_rotated(one.prompt, number)) for one in self.requests]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What became of a piece: seconds of each request, and until the last answer had come. `steps`
    are those that the server took meanwhile."""

    ttft: Sequence[float]
    tpot: Sequence[float]
    latency: Sequence[float]
    num_prompt_tokens: Sequence[int]
    num_output_tokens: int
    seconds: float
    steps: Sequence[MeasuredStep] = ()


@dataclass(frozen=True, slots=True)
class Load:
    """Requests a second; its pieces, and what the server made of each, the first time and again."""

    rate: float
    pieces: list[Piece] = field(default_factory=list)
    halves: tuple[list[Answers], list[Answers]] = field(default_factory=lambda: ([], []))


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """`halves` are the server's own, of the first and of the second rounds. `simulator`: with the
    steps of the other round; `forecast`: with those of other requests."""

    load: str
    name: str
    server: float
    halves: tuple[float, float]
    simulator: float
    forecast: float

    @property
    def error(self) -> float:
        return self.simulator / self.server - 1

    @property
    def forecast_error(self) -> float:
        return self.forecast / self.server - 1

    @property
    def own_difference(self) -> float:
        """The server's, between its halves."""
        first, second = self.halves
        return second / first - 1


def main() -> None:
    arguments = parse_arguments()
    contender = HttpContender(
        "octavo",
        lambda port: octavo_server(
            find_model(arguments.model), this_machine().num_cores, port, arguments.server
        ),
        is_stopped_when_idle=False,
    )
    try:
        figures = asyncio.run(compare(contender.server, arguments))
    finally:
        contender.close()
    for figure in figures:
        print(
            f"{figure.load:>8} {figure.name:<16} server {figure.server:8.4g}"
            f"  simulator {figure.simulator:8.4g}  {figure.error:+6.1%}"
            f"  forecast {figure.forecast_error:+6.1%}"
            f"  server against itself {figure.own_difference:+6.1%}"
        )
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(one) for one in figures], indent=2))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", default="smollm2")
    parser.add_argument("--shares", type=float, nargs="+", default=[0.3, 0.5, 0.7])
    parser.add_argument("--rates", type=float, nargs="+", help="requests a second, not shares")
    parser.add_argument("--pairs", type=int, default=5, help="of rounds")
    parser.add_argument("--requests", type=int, default=50, help="of each load in each round")
    parser.add_argument("--input-len", default="uniform:8:48")
    parser.add_argument("--output-len", default="uniform:8:24")
    parser.add_argument("--server", nargs="*", default=[], metavar="FLAG=VALUE")
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


async def compare(server: Server, arguments: argparse.Namespace) -> list[Figure]:
    pages = await page_facts(server)
    assert pages.num_pages is not None, "octavo's server tells its pages"
    plan = LoadPlan(
        input_lengths=parse_lengths(arguments.input_len, "--input-len"),
        output_lengths=parse_lengths(arguments.output_len, "--output-len"),
        clients=CLIENTS,
        num_asked=1,
    )
    number = 0
    await observe_once(server, plan, number)  # the first ones are slow
    observed = [await observe_once(server, plan, number := number + 1)]
    capacity = simulated_capacity(setup_of(observed[0], pages), arguments)
    print(f"capacity, simulated: {capacity:.1f} requests/s", flush=True)
    rates = arguments.rates or [share * capacity for share in arguments.shares]
    loads = [Load(rate) for rate in rates]
    for pair in range(arguments.pairs):
        for at, load in enumerate(loads):
            load.pieces.append(piece_of(arguments, load.rate, pair * len(loads) + at))
        for half in range(2):
            for load in loads:
                load.halves[half].append(await send(server, load.pieces[-1], half))
            number += 1
            observed.append(await observe_once(server, plan, number))
    between = together(observed)
    for_all = setup_of(between, pages)
    for line in for_all.times.assumptions:
        print(line)
    return [figure for load in loads for figure in figures_of(load, between, for_all, pages)]


def setup_of(observed: Observed, pages: PageFacts) -> Setup:
    profile = profile_of(observed, "the model", "this machine")
    return Setup(
        times=MeasuredTimes(profile),
        num_pages=pages.num_pages or 0,
        page_windows=tuple(pages.windows),
    )


def piece_of(arguments: argparse.Namespace, rate: float, seed: int) -> Piece:
    requests = workload(arguments, arguments.requests, seed).requests()
    return Piece(requests, list(poisson_arrivals(len(requests), rate, seed)))


async def send(server: Server, piece: Piece, half: int) -> Answers:
    before = await steps_of(server)
    start = time.perf_counter()
    outcomes = await run_load(server, piece.in_words(half), arrivals=piece.arrivals)
    seconds = time.perf_counter() - start
    for outcome in outcomes:
        if outcome.error:
            raise SystemExit(f"a request failed: {outcome.error}")
    return Answers(
        ttft=[outcome.ttft for outcome in outcomes],
        tpot=[outcome.tpot for outcome in outcomes if outcome.tpot is not None],
        latency=[outcome.latency for outcome in outcomes],
        num_prompt_tokens=[outcome.num_prompt_tokens for outcome in outcomes],
        num_output_tokens=sum(outcome.num_output_tokens for outcome in outcomes),
        seconds=seconds,
        steps=(await steps_of(server)).since(before),
    )


def simulated(setup: Setup, piece: Piece, num_prompt_tokens: Sequence[int]) -> Answers:
    """With the prompts' true lengths, as the server counted them."""
    records = simulate(setup, source_of(piece, num_prompt_tokens)).records
    finished = records.all_finished()
    return Answers(
        ttft=finished.ttft,
        tpot=finished.tpot(),
        latency=finished.latency,
        num_prompt_tokens=num_prompt_tokens,
        num_output_tokens=sum(finished.num_output_tokens),
        seconds=records.last_seconds,
    )


def source_of(piece: Piece, num_prompt_tokens: Sequence[int]) -> Source:
    return Source(
        [
            TraceRequest(
                arrival_seconds=arrival,
                num_prompt_tokens=num_tokens,
                num_answer_tokens=request.max_tokens,
                max_tokens=request.max_tokens,
            )
            for request, num_tokens, arrival in zip(
                piece.requests, num_prompt_tokens, piece.arrivals, strict=True
            )
        ]
    )


def simulated_capacity(setup: Setup, arguments: argparse.Namespace) -> float:
    """Requests per second when all come at once."""
    requests = workload(arguments, NUM_SATURATING, seed=999).requests()
    piece = Piece(requests, [0.0] * len(requests))
    source = source_of(piece, [request.num_prompt_tokens for request in requests])
    return NUM_SATURATING / simulate(setup, source).records.last_seconds


def workload(arguments: argparse.Namespace, num_prompts: int, seed: int) -> Workload:
    return Workload(
        num_prompts=num_prompts,
        input_lengths=parse_lengths(arguments.input_len, "--input-len"),
        output_lengths=parse_lengths(arguments.output_len, "--output-len"),
        seed=7000 + seed,
    )


def figures_of(load: Load, between: Observed, for_all: Setup, pages: PageFacts) -> Iterator[Figure]:
    """`for_all` has the profile of what was observed `between` the rounds."""
    first, second = load.halves
    simulator, forecast = [], []
    for piece, *halves in zip(load.pieces, first, second, strict=True):
        for answers in halves:
            other = replace(between, steps=answers.steps)
            simulator.append(simulated(setup_of(other, pages), piece, answers.num_prompt_tokens))
        forecast.append(simulated(for_all, piece, halves[0].num_prompt_tokens))
    kinds = (first + second, first, second, simulator, forecast)
    server, *others = (figures(answers) for answers in kinds)
    for name, value in server.items():
        half, again, simulated_value, forecast_value = (one[name] for one in others)
        yield Figure(
            load=f"{load.rate:.1f}/s",
            name=name,
            server=value,
            halves=(half, again),
            simulator=simulated_value,
            forecast=forecast_value,
        )


def figures(pieces: Sequence[Answers]) -> Mapping[str, float]:
    """Of all of them together. Milliseconds but for the first."""
    num_tokens = sum(answers.num_output_tokens for answers in pieces)
    return {
        "output tokens/s": num_tokens / sum(answers.seconds for answers in pieces),
        **{
            f"{name} p{percent}, ms": 1e3 * percentile(_ascending(pieces, name), percent)
            for name in ("ttft", "tpot", "latency")
            for percent in PERCENTS
        },
    }


def _ascending(pieces: Sequence[Answers], name: str) -> list[float]:
    return sorted(seconds for answers in pieces for seconds in getattr(answers, name))


def _rotated(prompt: str, number: int) -> str:
    words = prompt.split(" ")
    return " ".join(words[number:] + words[:number])


if __name__ == "__main__":
    main()
