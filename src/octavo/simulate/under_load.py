"""Samples for a profile from octavo's own server while it answers a load.

The server measures its steps itself, so that they may be of any mixture, and whatever else a load
costs the machine (HTTP, tokenising, the clients) is in their times. What a request spends outside
of the engine is what its client waited for the first token beyond what the engine says.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

import msgspec

from octavo.bench.event_stream import HttpError, get
from octavo.bench.lengths import Lengths
from octavo.bench.load import LoadError, Outcome, Server, run_load
from octavo.bench.workload import Workload
from octavo.core.step_load import MeasuredStep
from octavo.engine.step_log import StepReport
from octavo.simulate.from_steps import step_samples
from octavo.simulate.measured import Profile, fit

ENGINE_SECONDS = re.compile(
    r"^vllm:request_(?:queue|prefill)_time_seconds_sum\{.*\} (\S+)$", re.MULTILINE
)


CLIENTS = (2, 4, 8, 16, 32)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPlan:
    """Closed loops of one client and of so many `clients`, one after the other, each of whom asks
    `num_asked` times; all of it in each of `rounds`."""

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
    before = await _steps(server)
    outside_seconds = await _outside_seconds(server, plan, number)
    for clients in plan.clients:
        await _closed_loop(server, plan, clients, number)
    return Observed((await _steps(server)).since(before), outside_seconds)


def together(rounds: Sequence[Observed]) -> Observed:
    """All steps, and the median of the rounds."""
    steps = [step for one in rounds for step in one.steps]
    return Observed(steps, median(one.outside_seconds for one in rounds))


def profile_of(observed: Observed, model: str, machine: str) -> Profile:
    """Raises ConfigError if no step was observed."""
    profile = fit(list(step_samples(observed.steps)), model, machine)
    return msgspec.structs.replace(profile, request_seconds=observed.outside_seconds)


async def _outside_seconds(server: Server, plan: LoadPlan, number: int) -> float:
    """Of one client alone: where many come at once, most of it is waiting for each other."""
    before = await _engine_seconds(server)
    outcomes = await _closed_loop(server, plan, 1, number)
    in_engine = await _engine_seconds(server) - before
    return max(0.0, sum(outcome.ttft for outcome in outcomes) - in_engine) / len(outcomes)


async def _closed_loop(
    server: Server, plan: LoadPlan, clients: int, number: int
) -> Sequence[Outcome]:
    workload = Workload(
        num_prompts=clients * plan.num_asked,
        input_lengths=plan.input_lengths,
        output_lengths=plan.output_lengths,
        seed=1_000_003 * clients + number,
    )
    outcomes = await run_load(server, workload.requests(), max_concurrency=clients)
    for outcome in outcomes:
        if outcome.error:
            raise LoadError(f"the server failed to answer: {outcome.error}")
    return outcomes


async def _steps(server: Server) -> StepReport:
    report = await step_report(server)
    if report is None:
        raise LoadError(f"{server.base_url} does not tell its steps, as octavo's server does")
    return report


async def _engine_seconds(server: Server) -> float:
    """Seconds that all requests so far have spent in the engine until their first token."""
    text = await get(server.target("/metrics"), server.headers)
    return sum(float(value) for value in ENGINE_SECONDS.findall(text.decode("utf-8", "replace")))
