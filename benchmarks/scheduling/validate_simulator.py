"""The simulator beside the real server: one machine, one trace, both sets of figures.

    PYTHONPATH=src:. python -m benchmarks.scheduling.validate_simulator [MODEL] [--rounds 5]
        [--shares 0.3 0.5 0.7] [--seconds 4] [--input-len uniform:20:120]
        [--output-len uniform:8:40] [--json FILE]

Starts octavo's server and, in each round, sends Poisson arrivals at shares of its capacity: the
same times and lengths in every round, other words. Before each round and after the last, other
requests come (closed loops, and a few by chance) while the server measures its steps. What the
simulator gets beside the trace is a profile fitted to these, and to nothing of the loads. Answers
have their full length in both.

Printed are the server's figures (medians of the rounds), the simulator's, its error, and the
difference of the server's least and most round: what one machine does with one trace.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median

from benchmarks.peers.octavo import octavo_server
from benchmarks.peers.server import HttpContender
from octavo.bench.lengths import parse_lengths
from octavo.bench.load import Server, run_load
from octavo.bench.statistics import percentile
from octavo.bench.workload import LoadRequest, Workload, poisson_arrivals
from octavo.config.machine import this_machine
from octavo.hub.find import find_model
from octavo.simulate.cluster import Source
from octavo.simulate.measured import MeasuredTimes
from octavo.simulate.probe import PageFacts, page_facts
from octavo.simulate.simulation import Setup, simulate
from octavo.simulate.trace import TraceRequest
from octavo.simulate.under_load import LoadPlan, Observed, observe_once, profile_of, together

PERCENTS = (50, 99)
NUM_SATURATING = 200
CLIENTS = (8, 24)
"""Of the closed loops, beside those of one client."""


@dataclass(frozen=True, slots=True)
class Trace:
    """What is sent: requests, and when."""

    rate: float
    requests: Sequence[LoadRequest]
    arrivals: Sequence[float]

    def in_round(self, number: int) -> list[LoadRequest]:
        """With the words in another order, which the prefix cache does not know."""
        return [replace(one, prompt=_rotated(one.prompt, number)) for one in self.requests]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What became of a trace: seconds of each request, and until the last answer had come."""

    ttft: Sequence[float]
    tpot: Sequence[float]
    latency: Sequence[float]
    num_prompt_tokens: Sequence[int]
    num_output_tokens: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    load: str
    name: str
    rounds: Sequence[float]
    simulator: float

    @property
    def server(self) -> float:
        return median(self.rounds)

    @property
    def error(self) -> float:
        return self.simulator / self.server - 1

    @property
    def spread(self) -> float:
        """The server's own."""
        return (max(self.rounds) - min(self.rounds)) / self.server


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
            f"  between rounds {figure.spread:5.1%}"
        )
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(one) for one in figures], indent=2))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", default="smollm2")
    parser.add_argument("--shares", type=float, nargs="+", default=[0.3, 0.5, 0.7])
    parser.add_argument("--rates", type=float, nargs="+", help="requests a second, not shares")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each load in each round")
    parser.add_argument("--input-len", default="uniform:20:120")
    parser.add_argument("--output-len", default="uniform:8:40")
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
    await observe_once(server, plan, 0)  # the first ones are slow
    observed = [await observe_once(server, plan, number) for number in (1, 2)]
    capacity = simulated_capacity(setup_of(observed, pages), arguments)
    print(f"capacity, simulated: {capacity:.1f} requests/s", flush=True)
    rates = arguments.rates or [share * capacity for share in arguments.shares]
    traces = [trace_of(arguments, rate, seed) for seed, rate in enumerate(rates)]
    rounds: list[list[Answers]] = []
    for number in range(arguments.rounds):
        rounds.append([await send(server, trace, number) for trace in traces])
        observed.append(await observe_once(server, plan, number + 3))
    setup = setup_of(observed, pages)
    for line in setup.times.assumptions:
        print(line)
    return [
        figure
        for trace, answers in zip(traces, zip(*rounds, strict=True), strict=True)
        for figure in figures_of(trace, answers, setup)
    ]


def setup_of(observed: Sequence[Observed], pages: PageFacts) -> Setup:
    profile = profile_of(together(observed), "the model", "this machine")
    return Setup(
        times=MeasuredTimes(profile),
        num_pages=pages.num_pages or 0,
        page_windows=tuple(pages.windows),
    )


def trace_of(arguments: argparse.Namespace, rate: float, seed: int) -> Trace:
    requests = workload(arguments, round(rate * arguments.seconds), seed).requests()
    return Trace(rate, requests, list(poisson_arrivals(len(requests), rate, seed)))


async def send(server: Server, trace: Trace, number: int) -> Answers:
    start = time.perf_counter()
    outcomes = await run_load(server, trace.in_round(number), arrivals=trace.arrivals)
    for outcome in outcomes:
        if outcome.error:
            raise SystemExit(f"a request failed: {outcome.error}")
    return Answers(
        ttft=[outcome.ttft for outcome in outcomes],
        tpot=[outcome.tpot for outcome in outcomes if outcome.tpot is not None],
        latency=[outcome.latency for outcome in outcomes],
        num_prompt_tokens=[outcome.num_prompt_tokens for outcome in outcomes],
        num_output_tokens=sum(outcome.num_output_tokens for outcome in outcomes),
        seconds=time.perf_counter() - start,
    )


def simulated(setup: Setup, trace: Trace, answers: Answers) -> Answers:
    """With the prompts' true lengths, as the server counted them."""
    records = simulate(setup, source_of(trace, answers.num_prompt_tokens)).records
    finished = records.all_finished()
    return Answers(
        ttft=finished.ttft,
        tpot=finished.tpot(),
        latency=finished.latency,
        num_prompt_tokens=answers.num_prompt_tokens,
        num_output_tokens=sum(finished.num_output_tokens),
        seconds=records.last_seconds,
    )


def source_of(trace: Trace, num_prompt_tokens: Sequence[int]) -> Source:
    return Source(
        [
            TraceRequest(
                arrival_seconds=arrival,
                num_prompt_tokens=num_tokens,
                num_answer_tokens=request.max_tokens,
                max_tokens=request.max_tokens,
            )
            for request, num_tokens, arrival in zip(
                trace.requests, num_prompt_tokens, trace.arrivals, strict=True
            )
        ]
    )


def simulated_capacity(setup: Setup, arguments: argparse.Namespace) -> float:
    """Requests per second when all come at once."""
    requests = workload(arguments, NUM_SATURATING, seed=999).requests()
    trace = Trace(0.0, requests, [0.0] * len(requests))
    source = source_of(trace, [request.num_prompt_tokens for request in requests])
    return NUM_SATURATING / simulate(setup, source).records.last_seconds


def workload(arguments: argparse.Namespace, num_prompts: int, seed: int) -> Workload:
    return Workload(
        num_prompts=num_prompts,
        input_lengths=parse_lengths(arguments.input_len, "--input-len"),
        output_lengths=parse_lengths(arguments.output_len, "--output-len"),
        seed=7000 + seed,
    )


def figures_of(trace: Trace, rounds: Sequence[Answers], setup: Setup) -> Iterator[Figure]:
    simulator = figures(simulated(setup, trace, rounds[0]))
    server = [figures(answers) for answers in rounds]
    for name, value in simulator.items():
        yield Figure(
            load=f"{trace.rate:.1f}/s",
            name=name,
            rounds=[one[name] for one in server],
            simulator=value,
        )


def figures(answers: Answers) -> Mapping[str, float]:
    """Milliseconds but for the first."""
    return {
        "output tokens/s": answers.num_output_tokens / answers.seconds,
        **{
            f"{name} p{percent}, ms": 1e3 * percentile(sorted(getattr(answers, name)), percent)
            for name in ("ttft", "tpot", "latency")
            for percent in PERCENTS
        },
    }


def _rotated(prompt: str, number: int) -> str:
    words = prompt.split(" ")
    return " ".join(words[number:] + words[:number])


if __name__ == "__main__":
    main()
