"""Prefill, decode and batched decode of a model, side by side with llama.cpp if it is named.

    scripts/bench MODEL [--llama-bench PROGRAM] [--batch-sizes 8 32] [--repeats N] [--json FILE]

The contenders take turns, so that both see the same machine; a ratio is the median of the ratios
of the rounds. As in llama.cpp's programs, decode starts from an empty context, batched decode from
`--context` tokens in each sequence, and sampling costs next to nothing.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from benchmarks.peers.llama_cpp import LlamaCpp
from octavo.bench.fingerprint import fingerprint
from octavo.bench.latency import Case, LatencyBench
from octavo.bench.report import Metric, Report, now, report_to_json
from octavo.config.engine import EngineConfig
from octavo.config.machine import this_machine
from octavo.entrypoints.cli.bench_output import show
from octavo.entrypoints.local import LocalEngine
from octavo.hub.find import find_model

Rates = dict[str, float]
"""tokens/s by what was measured."""


def main() -> None:
    arguments = parse_arguments()
    path = find_model(arguments.model)
    contenders: dict[str, Callable[[], Rates]] = {"octavo": octavo_contender(path, arguments)}
    if arguments.llama_bench:
        contenders["llama.cpp"] = llama_contender(path, arguments)
    rounds: list[dict[str, Rates]] = []
    for _ in range(arguments.repeats):
        rounds.append({name: measure() for name, measure in contenders.items()})
    report = Report(
        kind="side-by-side",
        created=now(),
        machine=fingerprint(arguments.threads),
        model=path.name,
        settings={
            "prompt_tokens": arguments.prompt_tokens,
            "answer_tokens": arguments.answer_tokens,
            "context": arguments.context,
        },
        metrics=[*rate_metrics(rounds), *ratio_metrics(rounds)],
    )
    show(report)
    if arguments.json:
        arguments.json.write_bytes(report_to_json(report))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", default="smollm2")
    parser.add_argument("--prompt-tokens", type=int, default=512)
    parser.add_argument("--answer-tokens", type=int, default=128)
    parser.add_argument("--batch-sizes", type=int, nargs="*", default=[8, 32])
    parser.add_argument("--context", type=int, default=128, help="of batched decode")
    parser.add_argument("--steps", type=int, default=32, help="of batched decode")
    parser.add_argument("--threads", type=int, default=this_machine().num_cores)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--llama-bench", type=Path, metavar="PROGRAM", help="with its siblings")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write figures and machine there")
    return parser.parse_args()


def octavo_contender(path: Path, arguments: argparse.Namespace) -> Callable[[], Rates]:
    batches = arguments.batch_sizes
    config = EngineConfig(
        model=str(path),
        threads=arguments.threads,
        max_num_batched_tokens=max(512, arguments.prompt_tokens),
        max_num_seqs=max([*batches, 1]),
    )
    engine = LocalEngine(config)
    bench = LatencyBench(
        engine.runner, engine.front.model.vocab_size, config.max_num_batched_tokens
    )

    def measure(warmups: int = 0) -> Rates:
        prefill = bench.measure(Case(arguments.prompt_tokens, 1), 1, 1, warmups)
        decode = bench.measure(Case(1, 1), arguments.answer_tokens, 1, warmups)
        rates = {
            "prefill": arguments.prompt_tokens / prefill.prefill_seconds[0],
            "decode": arguments.answer_tokens / sum(decode.decode_seconds),
        }
        for batch in batches:
            times = bench.measure(Case(arguments.context, batch), arguments.steps, 1, warmups)
            total = batch * arguments.steps
            rates[f"decode batch {batch}"] = total / sum(times.decode_seconds)
        return rates

    measure(warmups=1)  # the first run touches memory for the first time
    return measure


def llama_contender(path: Path, arguments: argparse.Namespace) -> Callable[[], Rates]:
    peer = LlamaCpp(arguments.llama_bench, path, arguments.threads)

    def measure() -> Rates:
        prefill, decode = peer.single(arguments.prompt_tokens, arguments.answer_tokens)
        rates = {"prefill": prefill, "decode": decode}
        if arguments.batch_sizes:
            found = peer.batched(arguments.batch_sizes, arguments.context, arguments.steps)
            rates |= {f"decode batch {batch}": rate for batch, rate in found.items()}
        return rates

    return measure


def rate_metrics(rounds: list[dict[str, Rates]]) -> list[Metric]:
    return [
        Metric(
            name=f"{contender} {what}",
            unit="tokens/s",
            better="higher",
            samples=[one[contender][what] for one in rounds],
        )
        for contender, rates in rounds[0].items()
        for what in rates
    ]


def ratio_metrics(rounds: list[dict[str, Rates]]) -> list[Metric]:
    """octavo over each peer, round by round."""
    return [
        Metric(
            name=f"octavo / {peer} {what}",
            unit="times",
            better="higher",
            samples=[one["octavo"][what] / one[peer][what] for one in rounds],
        )
        for peer, rates in rounds[0].items()
        if peer != "octavo"
        for what in rates
    ]


if __name__ == "__main__":
    main()
