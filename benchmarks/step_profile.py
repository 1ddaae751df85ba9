"""Where a step's time goes: milliseconds by kernel, for a prompt and for a single new token.

    PYTHONPATH=src:. python -m benchmarks.step_profile MODEL [--tokens 1 512] [--json FILE]

As `octavo inspect program --profile` measures each instruction; here several runs, summed by kernel
and by whether the instruction belongs to the layers or to the head.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from octavo.bench.fingerprint import fingerprint
from octavo.bench.report import Metric, Report, now, report_to_json
from octavo.config.engine import EngineConfig
from octavo.config.machine import this_machine
from octavo.entrypoints.cli.bench_output import show
from octavo.entrypoints.local import LocalEngine
from octavo.ops.program import Program

HEAD = "head"


def main() -> None:
    arguments = parse_arguments()
    config = EngineConfig(
        model=arguments.model,
        threads=arguments.threads,
        max_num_batched_tokens=max(512, *arguments.tokens),
    )
    engine = LocalEngine(config)
    metrics = []
    for num_tokens in arguments.tokens:
        runs = [engine.runner.profile(num_tokens) for _ in range(arguments.repeats)]
        metrics += kernel_metrics(engine.runner.program, num_tokens, runs)
    report = Report(
        kind="step-profile",
        created=now(),
        machine=fingerprint(arguments.threads),
        model=engine.front.path.name,
        metrics=metrics,
    )
    engine.close()
    show(report)
    if arguments.json:
        arguments.json.write_bytes(report_to_json(report))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", default="smollm2")
    parser.add_argument("--tokens", type=int, nargs="+", default=[1, 512])
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--threads", type=int, default=this_machine().num_cores)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write figures and machine there")
    return parser.parse_args()


def kernel_metrics(program: Program, num_tokens: int, runs: list[list[float]]) -> list[Metric]:
    """One for each kernel, slowest first."""
    samples: dict[str, list[float]] = {}
    for index, instruction in enumerate(program.instructions):
        part = f"{HEAD} " if instruction.scope == HEAD else ""
        name = f"{num_tokens} tokens: {part}{instruction.kernel}"
        sums = samples.setdefault(name, [0.0] * len(runs))
        for run, seconds in enumerate(runs):
            sums[run] += seconds[index]
    slowest_first = sorted(samples.items(), key=lambda item: -sum(item[1]))
    return [
        Metric(name=name, unit="s", better="lower", samples=seconds)
        for name, seconds in slowest_first
    ]


if __name__ == "__main__":
    main()
