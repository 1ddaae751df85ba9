"""The simulator beside the real server: one machine, one trace, both sets of figures.

    python -m benchmarks.scheduling.validate_simulator [MODEL] [--shares 0.3 0.6 0.9]
        [--seconds 20] [--input-len uniform:20:120] [--output-len uniform:8:40] [--json FILE]

Starts octavo's server, fits a profile to its answers, finds its capacity in the simulator, then
sends Poisson arrivals at shares of that capacity to the server, and the same arrivals to the
simulator. Answers have their full length in both.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.peers.octavo import octavo_server
from benchmarks.peers.server import HttpContender
from octavo.bench.lengths import parse_lengths
from octavo.bench.load import Outcome, Server, run_load
from octavo.bench.statistics import percentile
from octavo.bench.workload import LoadRequest, Workload, poisson_arrivals
from octavo.config.engine import EngineConfig
from octavo.config.machine import this_machine
from octavo.hub.find import find_model
from octavo.simulate.cluster import Source
from octavo.simulate.measured import MeasuredTimes, Sample, fit
from octavo.simulate.probe import Plan, middle, num_pages, probe_once
from octavo.simulate.simulation import Run, Setup, simulate
from octavo.simulate.trace import TraceRequest

PERCENTS = (50, 90, 99)
NUM_SATURATING = 200


@dataclass(frozen=True, slots=True)
class Load:
    """What was sent, and what the server made of it."""

    rate: float
    requests: Sequence[LoadRequest]
    arrivals: Sequence[float]
    outcomes: Sequence[Outcome]
    seconds: float


@dataclass(frozen=True, slots=True)
class Figure:
    load: str
    name: str
    server: float
    simulator: float

    @property
    def error(self) -> float:
        return self.simulator / self.server - 1 if self.server else 0.0


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
            f"{figure.load:>12} {figure.name:<18} server {figure.server:9.4g}"
            f"  simulator {figure.simulator:9.4g}  {figure.error:+.1%}"
        )
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(one) for one in figures], indent=2))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", default="smollm2")
    parser.add_argument("--shares", type=float, nargs="+", default=[0.3, 0.6, 0.9])
    parser.add_argument("--seconds", type=float, default=20.0, help="of each load")
    parser.add_argument("--input-len", default="uniform:20:120")
    parser.add_argument("--output-len", default="uniform:8:40")
    parser.add_argument("--server", nargs="*", default=[], metavar="FLAG=VALUE")
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


async def compare(server: Server, arguments: argparse.Namespace) -> list[Figure]:
    """Rounds of the probe stand before, between and behind the loads, so that the profile and what
    it is compared with are of the same minutes."""
    plan = Plan(contexts=(16, 96), prompts=(1, 16, 32, 64, 128, 256, 512))
    rounds = [await probe_once(server, plan, 0)]
    capacity = simulated_capacity(await setup_of(server, rounds), arguments)
    print(f"capacity, simulated: {capacity:.2f} requests/s")
    loads = []
    for number, share in enumerate(arguments.shares):
        loads.append(await send(server, arguments, share * capacity, number))
        rounds.append(await probe_once(server, plan, number + 1))
    setup = await setup_of(server, rounds)
    for line in setup.times.assumptions:
        print(line)
    return [figure for load in loads for figure in figures_of(load, simulate_load(setup, load))]


async def setup_of(server: Server, rounds: Sequence[Sequence[Sample]]) -> Setup:
    pages = await num_pages(server)
    assert pages is not None, "octavo's server tells its pages"
    profile = fit(middle(rounds), server.model, "this machine")
    options = EngineConfig()
    return Setup(times=MeasuredTimes(profile), num_pages=pages, engine=options)


async def send(server: Server, arguments: argparse.Namespace, rate: float, number: int) -> Load:
    requests = workload(arguments, round(rate * arguments.seconds), number).requests()
    arrivals = list(poisson_arrivals(len(requests), rate, number))
    start = time.perf_counter()
    outcomes = await run_load(server, requests, arrivals=arrivals)
    return Load(rate, requests, arrivals, outcomes, time.perf_counter() - start)


def simulate_load(setup: Setup, load: Load) -> Run:
    """With the prompts' true lengths, as the server counted them."""
    trace = [
        TraceRequest(
            arrival_seconds=arrival,
            num_prompt_tokens=outcome.num_prompt_tokens,
            num_answer_tokens=request.max_tokens,
            max_tokens=request.max_tokens,
        )
        for outcome, request, arrival in zip(
            load.outcomes, load.requests, load.arrivals, strict=True
        )
    ]
    return simulate(setup, Source(trace))


def simulated_capacity(setup: Setup, arguments: argparse.Namespace) -> float:
    """Requests per second when all come at once."""
    requests = workload(arguments, NUM_SATURATING, seed=999).requests()
    trace = [
        TraceRequest(
            arrival_seconds=0.0,
            num_prompt_tokens=request.num_prompt_tokens,
            num_answer_tokens=request.max_tokens,
            max_tokens=request.max_tokens,
        )
        for request in requests
    ]
    return NUM_SATURATING / simulate(setup, Source(trace)).records.last_seconds


def workload(arguments: argparse.Namespace, num_prompts: int, seed: int) -> Workload:
    return Workload(
        num_prompts=num_prompts,
        input_lengths=parse_lengths(arguments.input_len, "--input-len"),
        output_lengths=parse_lengths(arguments.output_len, "--output-len"),
        seed=7000 + seed,
    )


def figures_of(load: Load, run: Run) -> list[Figure]:
    failed = [outcome.error for outcome in load.outcomes if outcome.error]
    if failed:
        raise SystemExit(f"{len(failed)} requests failed: {failed[0]}")
    outcomes, name_of_load = load.outcomes, f"{load.rate:.1f}/s"
    finished = run.records.all_finished()
    num_tokens = sum(outcome.num_output_tokens for outcome in outcomes)
    simulated_tokens = sum(finished.num_output_tokens)
    figures = [
        Figure(
            name_of_load,
            "output tokens/s",
            num_tokens / load.seconds,
            simulated_tokens / run.records.last_seconds,
        )
    ]
    tpots = [outcome.tpot for outcome in outcomes if outcome.tpot is not None]
    pairs = {
        "ttft": ([outcome.ttft for outcome in outcomes], list(finished.ttft)),
        "tpot": (tpots, finished.tpot()),
        "e2e": ([outcome.latency for outcome in outcomes], list(finished.latency)),
    }
    for name, (real, simulated) in pairs.items():
        for percent in PERCENTS:
            values = [1e3 * percentile(sorted(one), percent) for one in (real, simulated)]
            figures.append(Figure(name_of_load, f"{name} p{percent}, ms", *values))
    return figures


if __name__ == "__main__":
    main()
