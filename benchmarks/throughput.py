"""Prefill and decode rates of one sequence, side by side with llama.cpp's if its bench is named.

    scripts/bench MODEL [--llama-bench PROGRAM] [--threads N] [--repeats N] [--json FILE]

The contenders take turns, so that both see the same machine. Prefill is the prompt's tokens over
the time to the first token; decode is the tokens after the first over the time they took.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from octavo import __version__
from octavo.config.engine import EngineConfig
from octavo.config.machine import this_machine
from octavo.core.sampling_params import SamplingParams
from octavo.entrypoints.local import LocalEngine
from octavo.hub.find import find_model
from octavo.kernels._native import isa_levels

Rates = dict[str, float]
"""tokens/s by what was measured."""


def main() -> None:
    arguments = parse_arguments()
    path = find_model(arguments.model)
    contenders: dict[str, Callable[[], Rates]] = {"octavo": octavo_contender(path, arguments)}
    if arguments.llama_bench:
        contenders["llama.cpp"] = lambda: llama_rates(path, arguments)
    runs: dict[str, list[Rates]] = {name: [] for name in contenders}
    for _ in range(arguments.repeats):
        for name, measure in contenders.items():
            runs[name].append(measure())
    report = {
        "command": " ".join(sys.argv),
        "model": path.name,
        "threads": arguments.threads,
        "machine": fingerprint(),
        "tokens_per_second": {name: summary(rates) for name, rates in runs.items()},
    }
    show(report["tokens_per_second"], path.name, arguments)
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=2) + "\n")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", default="smollm2")
    parser.add_argument("--prompt-tokens", type=int, default=512)
    parser.add_argument("--answer-tokens", type=int, default=128)
    parser.add_argument("--threads", type=int, default=this_machine().num_cores)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--llama-bench", metavar="PROGRAM", help="llama.cpp's llama-bench")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write figures and machine there")
    return parser.parse_args()


def octavo_contender(path: Path, arguments: argparse.Namespace) -> Callable[[], Rates]:
    config = EngineConfig(
        model=str(path),
        threads=arguments.threads,
        max_num_batched_tokens=max(512, arguments.prompt_tokens),
        enable_prefix_caching=False,
    )
    engine = LocalEngine(config)
    draw = random.Random(0)
    ids = [draw.randrange(1000, 20000) for _ in range(arguments.prompt_tokens)]

    def measure() -> Rates:
        prefill_seconds, _ = timed(engine, ids, num_tokens=1)
        _, decode_seconds = timed(engine, ids[:1], num_tokens=arguments.answer_tokens + 1)
        return {
            "prefill": arguments.prompt_tokens / prefill_seconds,
            "decode": arguments.answer_tokens / decode_seconds,
        }

    measure()  # the first run touches memory for the first time
    return measure


def timed(engine: LocalEngine, ids: list[int], num_tokens: int) -> tuple[float, float]:
    """Seconds to the first token, and from there to the last."""
    params = SamplingParams(temperature=0.0, max_tokens=num_tokens, ignore_eos=True)
    request = engine.front.inputs.completion(ids, params)
    start = time.perf_counter()
    arrivals = [time.perf_counter() for _ in engine.run([request])]
    return arrivals[0] - start, arrivals[-1] - arrivals[0]


def llama_rates(path: Path, arguments: argparse.Namespace) -> Rates:
    command = [
        *(arguments.llama_bench, "-m", str(path), "-t", str(arguments.threads), "-r", "1"),
        *("-p", str(arguments.prompt_tokens), "-n", str(arguments.answer_tokens), "-o", "json"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    rates = {}
    for test in json.loads(done.stdout):
        rates["prefill" if test["n_prompt"] else "decode"] = float(test["avg_ts"])
    return rates


def summary(runs: list[Rates]) -> dict[str, dict[str, float]]:
    return {
        what: {
            "median": statistics.median(run[what] for run in runs),
            "least": min(run[what] for run in runs),
            "most": max(run[what] for run in runs),
        }
        for what in runs[0]
    }


def show(
    figures: dict[str, dict[str, dict[str, float]]], model: str, arguments: argparse.Namespace
) -> None:
    print(f"{model}, {arguments.threads} threads, median of {arguments.repeats} [least, most]")
    print(f"prompt {arguments.prompt_tokens} tokens, answer {arguments.answer_tokens} tokens")
    for name, rates in figures.items():
        cells = "   ".join(
            f"{what} {rate['median']:.0f} [{rate['least']:.0f}, {rate['most']:.0f}] tokens/s"
            for what, rate in rates.items()
        )
        print(f"{name:10} {cells}")


def fingerprint() -> dict[str, object]:
    names = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    return {
        "octavo": __version__,
        "processor": names[0] if names else platform.processor(),
        "cores": this_machine().num_cores,
        "instruction_sets": isa_levels(),
        "system": platform.platform(),
    }


if __name__ == "__main__":
    main()
