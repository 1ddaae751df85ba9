"""Overload: what octavo's server does when ten times more comes than it can answer.

    PYTHONPATH=src:. python -m benchmarks.scheduling.overload [MODEL] [--seconds 60] [--times 10]
        [--slots 16] [--input-len 200] [--output-len 128] [--octavo FLAG=VALUE ...] [--json FILE]

Closed loop with as many clients as slots: the capacity. On another server, which has the flags of
`--octavo` (without dashes): open loop with Poisson arrivals at 0.9 of it, at ten times of it, and
single requests until one is answered as fast as at 0.9. Then the closed loop again, on a server as
the first, since machines drift: the peak is the mean of both. The load generator shares the
machine, so its share of a core is told beside the server's. It keeps its connections, as clients'
libraries do.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.peers.octavo import octavo_server
from benchmarks.peers.server import HttpContender
from benchmarks.scheduling.exam import look
from octavo.bench.lengths import Fixed, Uniform
from octavo.bench.load import Outcome, Server, ask, run_load
from octavo.bench.statistics import percentile
from octavo.bench.workload import LoadRequest, Workload, poisson_arrivals
from octavo.config.machine import this_machine
from octavo.hub.find import find_model
from octavo.metrics.snapshot import Snapshot

CALM_LOAD = 0.9
PEAK_REQUESTS_PER_CLIENT = 12
"""Fewer are over in a few seconds, in which a shared machine may be a fifth faster or slower."""
RECOVERY_SECONDS = 10.0
SAMPLE_SECONDS = 0.5
REFUSED = re.compile(r"HTTP (429|503)")


@dataclass(frozen=True, slots=True)
class Phase:
    """What came of one load. Times in seconds, memory in bytes of all the server's processes.
    Shares are of one core. `news` is what the server counted while the load was on."""

    outcomes: Sequence[Outcome]
    news: Snapshot
    most_memory: int
    generator_cpu_seconds: float

    @property
    def admitted(self) -> list[Outcome]:
        return [one for one in self.outcomes if not one.error]

    @property
    def refused(self) -> list[Outcome]:
        return [one for one in self.outcomes if REFUSED.search(one.error)]

    @property
    def failed(self) -> list[Outcome]:
        return [one for one in self.outcomes if one.error and not REFUSED.search(one.error)]

    @property
    def tokens_per_second(self) -> float:
        """Generated while the load was on, by the server's own count."""
        return self.news.rate("vllm:generation_tokens_total")

    def results(self) -> dict[str, float]:
        found = {
            "seconds": self.news.time,
            "requests": len(self.outcomes),
            "admitted": len(self.admitted),
            "refused": len(self.refused),
            "failed": len(self.failed),
            "tokens_per_second": self.tokens_per_second,
            "front_cpu_share": self.news.rate("octavo:front_cpu_seconds_total"),
            "engine_cpu_share": self.news.rate("octavo:engine_cpu_seconds_total"),
            "generator_cpu_share": self.generator_cpu_seconds / self.news.time,
            "most_memory_mib": self.most_memory / 2**20,
        }
        ttfts = sorted(one.ttft for one in self.admitted)
        refusals = sorted(one.end_seconds for one in self.refused)
        for name, samples in (("ttft", ttfts), ("refusal", refusals)):
            for percent in (50, 99) if samples else ():
                found[f"{name}_p{percent}_seconds"] = percentile(samples, percent)
        return found


class Subject:
    """The server under load, and its memory."""

    def __init__(self, server: Server, pid: int) -> None:
        self.server = server
        self._pid = pid
        self._most_memory = 0

    async def load(
        self,
        requests: Sequence[LoadRequest],
        *,
        arrivals: Sequence[float] | None = None,
        clients: int | None = None,
    ) -> Phase:
        """Counted from the first request to the last arrival; in a closed loop to the last end."""
        self._most_memory = 0
        watch = asyncio.create_task(self._watch_memory())
        before, cpu_before = await look(self.server), time.process_time()
        sending = asyncio.create_task(
            run_load(self.server, requests, arrivals=arrivals, max_concurrency=clients)
        )
        await (asyncio.sleep(arrivals[-1]) if arrivals else asyncio.wait({sending}))
        cpu_seconds = time.process_time() - cpu_before
        news = (await look(self.server)).since(before)
        outcomes = await sending
        watch.cancel()
        return Phase(outcomes, news, self._most_memory, cpu_seconds)

    async def recovery_seconds(self, request: LoadRequest, ttft: float) -> float:
        """How long until a single request has its first token within `ttft`."""
        start = time.perf_counter()
        while (seconds := time.perf_counter() - start) < RECOVERY_SECONDS:
            outcome = await ask(self.server, request)
            if not outcome.error and outcome.ttft <= ttft:
                break
        return seconds

    async def _watch_memory(self) -> None:
        while True:
            self._most_memory = max(self._most_memory, resident_bytes(self._pid))
            await asyncio.sleep(SAMPLE_SECONDS)


def resident_bytes(group: int) -> int:
    """Memory of a process group, what its processes share counted once for each."""
    total = 0
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and _group_of(folder) == group:
            fields = (folder / "status").read_text().split()
            total += int(fields[fields.index("VmRSS:") + 1]) * 1024 if "VmRSS:" in fields else 0
    return total


def _group_of(folder: Path) -> int:
    try:
        return int((folder / "stat").read_text().rpartition(")")[2].split()[2])
    except OSError:
        return -1


def workload(arguments: argparse.Namespace, num_prompts: int, seed: int) -> list[LoadRequest]:
    least, most = arguments.input_len // 2, arguments.input_len * 3 // 2
    made = Workload(
        num_prompts=num_prompts,
        input_lengths=Uniform(least, most),
        output_lengths=Fixed(arguments.output_len),
        seed=seed,
    )
    return made.requests()


async def measure_peak(subject: Subject, arguments: argparse.Namespace) -> Phase:
    """The closed loop, after one round of it to warm up."""
    slots = arguments.slots
    await subject.load(workload(arguments, slots, seed=1), clients=slots)
    number = PEAK_REQUESTS_PER_CLIENT * slots
    return await subject.load(workload(arguments, number, seed=2), clients=slots)


async def measure(
    subject: Subject, capacity: float, arguments: argparse.Namespace
) -> tuple[Phase, Phase, float]:
    """At 0.9 of the capacity, in requests per second; at many times of it; and the seconds to
    recover from that."""

    async def open_loop(rate: float, seed: int) -> Phase:
        number = max(1, round(rate * arguments.seconds))
        arrivals = list(poisson_arrivals(number, rate, seed))
        return await subject.load(workload(arguments, number, seed), arrivals=arrivals)

    calm = await open_loop(CALM_LOAD * capacity, seed=3)
    overload = await open_loop(arguments.times * capacity, seed=4)
    calm_ttft = calm.results()["ttft_p99_seconds"]
    recovery = await subject.recovery_seconds(workload(arguments, 1, seed=5)[0], calm_ttft)
    return calm, overload, recovery


def verdict(
    peaks: Sequence[Phase], calm: Phase, overload: Phase, recovery_seconds: float
) -> dict[str, float]:
    """What is to be judged. Peaks drift with the machine: their mean counts."""
    mean_peak = sum(peak.tokens_per_second for peak in peaks) / len(peaks)
    found, calm_found = overload.results(), calm.results()
    return {
        "refusal_p99_seconds": found.get("refusal_p99_seconds", 0.0),
        "goodput_share_of_peak": overload.tokens_per_second / mean_peak,
        "ttft_p99_over_calm": found["ttft_p99_seconds"] / calm_found["ttft_p99_seconds"],
        "memory_growth_mib": (overload.most_memory - calm.most_memory) / 2**20,
        "recovery_seconds": recovery_seconds,
    }


@contextmanager
def serving(arguments: argparse.Namespace, flags: Sequence[str]) -> Iterator[Subject]:
    """A server with these flags, while the context lasts."""
    path = find_model(arguments.model)
    slots = f"--max-num-seqs={arguments.slots}"
    contender = HttpContender(
        "octavo",
        lambda port: octavo_server(path, arguments.threads, port, [slots, *flags]),
        is_stopped_when_idle=False,
    )
    try:
        yield Subject(replace(contender.server, keeps_connections=True), contender.pid)
    finally:
        contender.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", default="smollm2")
    parser.add_argument("--seconds", type=float, default=60.0, help="of each open loop")
    parser.add_argument("--times", type=float, default=10.0, help="the capacity, in overload")
    parser.add_argument("--slots", type=int, default=16)
    parser.add_argument("--input-len", type=int, default=200, metavar="TOKENS")
    parser.add_argument("--output-len", type=int, default=128, metavar="TOKENS")
    parser.add_argument("--threads", type=int, default=this_machine().num_cores)
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--octavo", nargs="*", default=[], metavar="FLAG=VALUE")
    arguments = parser.parse_args()
    with serving(arguments, ()) as subject:
        peak = asyncio.run(measure_peak(subject, arguments))
    with serving(arguments, [f"--{flag}" for flag in arguments.octavo]) as subject:
        capacity = peak.tokens_per_second / arguments.output_len
        calm, overload, recovery = asyncio.run(measure(subject, capacity, arguments))
    with serving(arguments, ()) as subject:
        after = asyncio.run(measure_peak(subject, arguments))
    phases = {"peak": peak, "calm": calm, "overload": overload, "peak after": after}
    results = {name: phase.results() for name, phase in phases.items()}
    results["verdict"] = {
        "capacity_requests_per_second": capacity,
        **verdict((peak, after), calm, overload, recovery),
    }
    for phase, found in results.items():
        print(phase)
        for name, value in found.items():
            print(f"  {name:32s} {value:12.3f}")
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
