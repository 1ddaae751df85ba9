"""Samples for a profile from octavo's own server while it answers a load.

The server measures its steps itself, so that they may be of any mixture, and whatever else a load
costs the machine (HTTP, tokenising, the clients) is in their times. What a request spends outside
of the engine is what its client waited for the first token beyond what the engine says, while
others are answered: then it takes two to three times as long as alone, for want of processors.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

import msgspec

from octavo.bench.event_stream import HttpError, get
from octavo.bench.lengths import Lengths
from octavo.bench.load import LoadError, Outcome, Server, run_load
from octavo.bench.workload import LoadRequest, Workload, poisson_arrivals
from octavo.core.step_load import MeasuredStep
from octavo.engine.step_log import StepReport
from octavo.simulate.from_steps import step_samples
from octavo.simulate.measured import Profile, fit

ENGINE_SECONDS = re.compile(
    r"^vllm:request_(?:queue|prefill)_time_seconds_sum\{.*\} (\S+)$", re.MULTILINE
)


CLIENTS = (2, 4, 8, 16, 32)
OPEN_SHARE = 0.6


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPlan:
    """Closed loops of one client and of so many `clients`, one after the other, each of whom asks
    `num_asked` times; then as many requests as the most of them send, by chance, at `OPEN_SHARE` of
    the rate at which the loops were answered: only there do requests arrive in the middle of
    everything. All of it in each of `rounds`."""

    input_lengths: Lengths
    output_lengths: Lengths
    clients: Sequence[int] = CLIENTS
    num_asked: int = 3
    rounds: int = 3


@dataclass(frozen=True, slots=True)
class Observed:
    """`outside_seconds`: what requests spend outside of the engine until their first token, on
    average."""

    steps: Sequence[MeasuredStep]
    outside_seconds: float


async def step_report(server: Server) -> StepReport | None:
    """None from a server that does not tell. Raises LoadError if there is none."""
    try:
        text = await get(server.target("/steps"), server.headers)
        return msgspec.json.decode(text, type=StepReport)
    except (HttpError, msgspec.DecodeError):
        return None
    except OSError as error:
        raise LoadError(f"{server.base_url} does not answer: {error}") from None


async def observe(
    server: Server, plan: LoadPlan, on_measured: Callable[[int, int], None] | None = None
) -> Observed:
    """Raises LoadError when the server refuses or fails a request, or does not tell its steps."""
    found = []
    for number in range(plan.rounds):
        found.append(await observe_once(server, plan, number))
        if on_measured is not None:
            on_measured(number + 1, plan.rounds)
    return together(found)


async def observe_once(server: Server, plan: LoadPlan, number: int) -> Observed:
    """One round; its number makes the prompts new."""
    before = await steps_of(server)
    await _closed_loop(server, plan, 1, number)
    start = time.perf_counter()
    for clients in plan.clients:
        await _closed_loop(server, plan, clients, number)
    num_answered = plan.num_asked * sum(plan.clients)
    rate = OPEN_SHARE * num_answered / (time.perf_counter() - start)
    outside_seconds = await _open_loop(server, plan, rate, number)
    return Observed((await steps_of(server)).since(before), outside_seconds)


def together(rounds: Sequence[Observed]) -> Observed:
    """All steps, and the median of the rounds."""
    steps = [step for one in rounds for step in one.steps]
    return Observed(steps, median(one.outside_seconds for one in rounds))


def profile_of(observed: Observed, model: str, machine: str) -> Profile:
    """Raises ConfigError if no step was observed."""
    profile = fit(list(step_samples(observed.steps)), model, machine)
    return msgspec.structs.replace(profile, request_seconds=observed.outside_seconds)


async def _closed_loop(server: Server, plan: LoadPlan, clients: int, number: int) -> None:
    requests = _requests(plan, clients * plan.num_asked, 1_000_003 * clients + number)
    _checked(await run_load(server, requests, max_concurrency=clients))


async def _open_loop(server: Server, plan: LoadPlan, rate: float, number: int) -> float:
    """Seconds outside of the engine until the first token, on average. (Where many come at once,
    as in a closed loop, most of it is waiting for each other.)"""
    num_requests = plan.num_asked * max(plan.clients)
    requests = _requests(plan, num_requests, 500_000_003 + number)
    arrivals = list(poisson_arrivals(num_requests, rate, number))
    before = await _engine_seconds(server)
    outcomes = _checked(await run_load(server, requests, arrivals=arrivals))
    in_engine = await _engine_seconds(server) - before
    return max(0.0, sum(outcome.ttft for outcome in outcomes) - in_engine) / num_requests


def _requests(plan: LoadPlan, num_requests: int, seed: int) -> list[LoadRequest]:
    return Workload(
        num_prompts=num_requests,
        input_lengths=plan.input_lengths,
        output_lengths=plan.output_lengths,
        seed=seed,
    ).requests()


def _checked(outcomes: Sequence[Outcome]) -> Sequence[Outcome]:
    for outcome in outcomes:
        if outcome.error:
            raise LoadError(f"the server failed to answer: {outcome.error}")
    return outcomes


async def steps_of(server: Server) -> StepReport:
    """Raises LoadError from a server that does not tell, or if there is none."""
    report = await step_report(server)
    if report is None:
        raise LoadError(f"{server.base_url} does not tell its steps, as octavo's server does")
    return report


async def _engine_seconds(server: Server) -> float:
    """Seconds that all requests so far have spent in the engine until their first token."""
    text = await get(server.target("/metrics"), server.headers)
    return sum(float(value) for value in ENGINE_SECONDS.findall(text.decode("utf-8", "replace")))
