"""The `linear` kernels of two working copies, built in place, in turns of some milliseconds.

    python -m benchmarks.kernels.in_turns OTHER [--pairs 30] [--formats Q4_1] [--shapes 1536x576]
        [--rows 8 32]

What neighbours take of a shared machine changes within seconds, so that two runs one after the
other may differ by a half. Here a process of each copy holds the same program, each pair of runs is
made within some ten milliseconds, the other one first every other time, and the median of the
pairs' ratios counts: this copy's speed over OTHER's. A few hundredths stand out.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from pathlib import Path

import msgspec

from benchmarks.kernels.linear import Bench, Case, for_rows, matrices_for
from octavo.kernels import _native

THIS = Path(__file__).resolve().parents[2]
WEIGHT_BYTES = 24e6
OPERATIONS = 4e9
"""Of one run at most: some ten milliseconds."""


class Job(msgspec.Struct, frozen=True):
    case: Case
    rows: int


class Copy:
    """A process with a working copy's octavo and this one's benchmarks, idle between runs."""

    def __init__(self, root: Path) -> None:
        command = [sys.executable, "-m", "benchmarks.kernels.in_turns", "--answer"]
        environment = {**os.environ, "PYTHONPATH": f"{root / 'src'}{os.pathsep}{THIS}"}
        self._process = subprocess.Popen(
            command, cwd=THIS, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def seconds(self, job: Job) -> float:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(msgspec.json.encode(job) + b"\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate()


def answer() -> None:
    """One run's seconds for each job; the program of the last one is kept."""
    held: tuple[Job, Bench] | None = None
    for line in sys.stdin.buffer:
        job = msgspec.json.decode(line, type=Job)
        if held is None or held[0] != job:
            pool = _native.ThreadPool(job.case.threads)
            matrices = matrices_for(job.case, pool, WEIGHT_BYTES)
            used = for_rows(matrices, job.case, job.rows, OPERATIONS)
            held = job, Bench(job.case, pool, used, job.rows)
            held[1].seconds(1)
        print(held[1].seconds(1), flush=True)


def compare(this: Copy, other: Copy, job: Job, pairs: int) -> str:
    for one in (this, other):
        one.seconds(job)
    ratios, times = [], []
    for number in range(pairs):
        order = (this, other) if number % 2 else (other, this)
        taken = {one: one.seconds(job) for one in order}
        ratios.append(taken[other] / taken[this])
        times.append(taken[other])
    low, middle, high = statistics.quantiles(ratios, n=4)
    return f"{middle:7.3f} [{low:.2f}, {high:.2f}] {1e3 * statistics.median(times):10.1f}"


def main() -> None:
    if sys.argv[1:] == ["--answer"]:
        answer()
        return
    level = _native.isa_levels()[0]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("other", type=Path, help="a working copy after scripts/build-native")
    parser.add_argument("--pairs", type=int, default=30)
    parser.add_argument("--formats", nargs="+", default=["Q4_1", "Q4_K", "Q6_K"])
    parser.add_argument("--shapes", nargs="+", default=["1536x768", "1024x4864"], metavar="NxK")
    parser.add_argument("--rows", nargs="+", type=int, default=[1, 8, 32, 200])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--level", default=level, choices=_native.isa_levels())
    options = parser.parse_args()
    this, other = Copy(THIS), Copy(options.other.resolve())
    print("format N x K        rows  as fast [quartiles]  ms of the other")
    for shape in options.shapes:
        outputs, inputs = (int(part) for part in shape.split("x"))
        for name in options.formats:
            for rows in options.rows:
                case = Case(options.level, name, outputs, inputs, options.threads)
                line = compare(this, other, Job(case, rows), options.pairs)
                print(f"{name:<6} {shape:<12} {rows:>4}  {line}", flush=True)
    this.close()
    other.close()


if __name__ == "__main__":
    main()
