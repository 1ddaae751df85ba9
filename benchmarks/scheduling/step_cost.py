"""What scheduling costs: microseconds of one step by sequences that run and that wait.

    PYTHONPATH=src:. python -m benchmarks.scheduling.step_cost [--policy NAME] [--json FILE]

Everything around the model: schedule, apply (with one token each), observe, and the snapshot for
the metrics. The model takes no time. All decode; every 16th step of each takes a page.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence as Items
from itertools import pairwise
from pathlib import Path
from statistics import median

import msgspec

from octavo.config.engine import EngineConfig
from octavo.core.request import EngineRequest
from octavo.core.sampling_params import SamplingParams
from octavo.core.schedule import ScheduledStep, SequenceResult, StepResult
from octavo.core.sequence import Sequence
from octavo.engine.counters import EngineCounts
from octavo.engine.snapshot import Snapshots
from octavo.kv.kv_manager import KvManager
from octavo.scheduler.config import SchedulerConfig
from octavo.scheduler.policies.registry import policy_factory
from octavo.scheduler.scheduler import Scheduler

PROMPT_TOKENS = 128
NUM_STEPS = 200
ANSWER = SequenceResult(token_id=7)
NO_COUNTS = EngineCounts(num_steps=1)


class Cost(msgspec.Struct, frozen=True):
    """Microseconds, medians over the steps."""

    num_running: int
    num_waiting: int
    schedule: float
    apply: float
    observe: float
    snapshot: float

    @property
    def total(self) -> float:
        return self.schedule + self.apply + self.observe + self.snapshot


def make_scheduler(num_running: int, policy: str) -> Scheduler:
    config = SchedulerConfig(
        max_num_seqs=num_running,
        max_num_batched_tokens=max(2048, num_running),
        max_model_len=8192,
        max_logit_rows=num_running,
    )
    pages_each = (PROMPT_TOKENS + 2 * NUM_STEPS) // 16 + 2
    kv = KvManager(num_running * pages_each)
    return Scheduler(config, kv, policy_factory(EngineConfig(scheduling_policy=policy)))


def add_sequence(scheduler: Scheduler, number: int) -> None:
    prompt = [number % 50_000, number // 50_000, *range(PROMPT_TOKENS - 2)]
    request = EngineRequest(
        request_id=str(number),
        prompt_token_ids=prompt,
        sampling_params=SamplingParams(max_tokens=4000, temperature=0.0),
        arrival_time=float(number),
        tenant=str(number % 10),
    )
    scheduler.add(Sequence(request, 0, prompt, PROMPT_TOKENS, seed=0), float(number))


def measure(num_running: int, num_waiting: int, policy: str) -> Cost:
    scheduler = make_scheduler(num_running, policy)
    for number in range(num_running + num_waiting):
        add_sequence(scheduler, number)
    now = float(num_running + num_waiting)
    snapshots = Snapshots(scheduler)
    while scheduler.num_running < num_running or any(
        s.num_output_tokens == 0 for s in scheduler._running
    ):
        run_step(scheduler, snapshots, now)
    steps = [run_step(scheduler, snapshots, now) for _ in range(NUM_STEPS)]
    parts = [1e6 * median(part) for part in zip(*steps, strict=True)]
    return Cost(num_running, num_waiting, *parts)


def run_step(
    scheduler: Scheduler, snapshots: Snapshots, now: float
) -> tuple[float, float, float, float]:
    """Seconds of schedule, apply, observe and the figures for the snapshot."""
    times = [time.perf_counter()]
    step = scheduler.schedule(now)
    times.append(time.perf_counter())
    result = answers(step)
    ran = time.perf_counter() - times[-1]
    scheduler.apply(step, result)
    times.append(time.perf_counter() - ran)
    scheduler.observe(step, 0.01)
    times.append(time.perf_counter() - ran)
    snapshots.take(NO_COUNTS)
    times.append(time.perf_counter() - ran)
    first, second, third, fourth = (after - before for before, after in pairwise(times))
    return first, second, third, fourth


def answers(step: ScheduledStep) -> StepResult:
    return StepResult([ANSWER if item.samples else SequenceResult() for item in step.sequences])


def main(arguments: Items[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--policy", default="fcfs")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    print(f"policy {options.policy}; us per step, median of {NUM_STEPS}")
    print("running  waiting  schedule   apply  observe  snapshot   total")
    costs = []
    for num_running, num_waiting in ((32, 0), (256, 0), (256, 1000), (256, 100_000)):
        cost = measure(num_running, num_waiting, options.policy)
        costs.append(cost)
        print(
            f"{num_running:7} {num_waiting:8} {cost.schedule:9.0f} {cost.apply:7.0f}"
            f" {cost.observe:8.0f} {cost.snapshot:9.0f} {cost.total:7.0f}"
        )
    if options.json:
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(costs)))


if __name__ == "__main__":
    main()
