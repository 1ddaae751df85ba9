"""`octavo bench latency` and `octavo bench throughput`: a model in this process, no server."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from octavo.bench.fingerprint import fingerprint
from octavo.bench.latency import Case, CaseTimes, LatencyBench, Limits, plan_cases
from octavo.bench.lengths import FORMS, Lengths, parse_lengths
from octavo.bench.limits import StepCost, step_cost
from octavo.bench.machine import MachineRates
from octavo.bench.report import Metric, Report, Setting, now
from octavo.bench.svg import Line, line_chart
from octavo.bench.throughput import Run, make_requests, run_throughput
from octavo.config.engine import EngineConfig
from octavo.engine.factory import make_engine
from octavo.engine.front import Front
from octavo.entrypoints.cli.bench_machine import positive, read_rates
from octavo.entrypoints.cli.bench_output import add_output, check_files, deliver
from octavo.entrypoints.cli.flags import add_config_file, add_options, read_options
from octavo.entrypoints.cli.load_local import load
from octavo.entrypoints.cli.loading import add_model, engine_config
from octavo.entrypoints.local import LocalEngine
from octavo.entrypoints.progress import counting_bar
from octavo.errors import ConfigError
from octavo.weights.gguf import GGUFFile

CONTEXTS = (128, 512, 2048, 8192)
BATCHES = (1, 2, 4, 8, 16, 32)


def configure_latency(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    add_lists(parser)
    parser.add_argument(
        "--decode-steps", type=positive, default=32, metavar="N", help="per repeat (default: 32)"
    )
    parser.add_argument("--repeats", type=positive, default=3, metavar="N", help="(default: 3)")
    parser.add_argument(
        "--max-prompt-tokens",
        type=positive,
        default=4096,
        metavar="TOKENS",
        help="leave out batches with more prompt tokens together (default: 4096)",
    )
    parser.add_argument(
        "--machine",
        type=Path,
        metavar="FILE",
        help="limits from a report of `octavo bench machine` (default: measured quickly now)",
    )
    add_output(parser, has_plot=True)
    add_engine(parser)
    parser.set_defaults(execute=run_latency)


def add_lists(parser: argparse.ArgumentParser) -> None:
    for flag, values, what in (
        ("--contexts", CONTEXTS, "prompt lengths in tokens"),
        ("--batch-sizes", BATCHES, "sequences at once"),
    ):
        shown = " ".join(map(str, values))
        parser.add_argument(
            flag,
            type=positive,
            nargs="+",
            default=list(values),
            metavar="N",
            help=f"{what} (default: {shown})",
        )


def add_engine(parser: argparse.ArgumentParser) -> None:
    add_config_file(parser)
    add_options(parser, EngineConfig, "engine", without=("model",))


def run_latency(namespace: argparse.Namespace) -> int:
    check_files(namespace)
    config = engine_config(read_options(namespace, EngineConfig)[EngineConfig])
    engine = load(config)
    try:
        resolved = engine.front.resolved.config
        assert resolved.threads is not None
        rates = read_rates(namespace.machine, resolved.threads, resolved.isa)
        with GGUFFile.open(engine.front.path) as file:
            cost = step_cost(file, resolved.dtype, resolved.quantization)
        times, skipped = measure_cases(engine, namespace)
    finally:
        engine.close()
    budget = resolved.max_num_batched_tokens
    report = Report(
        kind="latency",
        created=now(),
        machine=fingerprint(resolved.threads, resolved.isa),
        model=engine.front.path.name,
        settings={**engine_settings(engine.front), "weight_bytes": cost.weight_bytes},
        rates=rates,
        metrics=[m for one in times for m in case_metrics(one, cost, rates, budget)],
        skipped=skipped,
    )
    deliver(report, namespace, latency_chart)
    return 0


def engine_settings(front: Front) -> dict[str, Setting]:
    config = front.resolved.config
    names = ("dtype", "kv_cache_dtype", "max_num_batched_tokens")
    return {name: getattr(config, name) for name in names}


def measure_cases(
    engine: LocalEngine, namespace: argparse.Namespace
) -> tuple[list[CaseTimes], list[str]]:
    config = engine.front.resolved.config
    limits = Limits(
        max_model_len=engine.runner.max_model_len,
        max_num_seqs=config.max_num_seqs,
        num_pages=engine.runner.num_pages,
        max_prompt_tokens=namespace.max_prompt_tokens,
        num_page_groups=engine.runner.groups.num,
    )
    steps = namespace.decode_steps
    cases, skipped = plan_cases(namespace.contexts, namespace.batch_sizes, steps, limits)
    if not cases:
        raise ConfigError(f"no case can be measured: {'; '.join(skipped)}")
    bench = LatencyBench(
        engine.runner,
        engine.front.model.vocab_size,
        config.max_num_batched_tokens,
        num_page_groups=limits.num_page_groups,
    )
    times = []
    with counting_bar("Measuring") as report:
        for index, case in enumerate(cases):
            report(index, len(cases))
            times.append(bench.measure(case, steps, namespace.repeats))
    return times, skipped


def case_metrics(
    times: CaseTimes, cost: StepCost, rates: MachineRates, max_step_tokens: int
) -> list[Metric]:
    """Tokens per second of both phases, with the share of what the machine could do."""
    case = times.case
    num_tokens = case.batch * case.context
    num_steps = -(-num_tokens // max_step_tokens)
    least_prefill = cost.least_seconds(rates, num_tokens, case.batch, num_steps)
    least_decode = cost.least_seconds(rates, case.batch, case.batch)
    return [
        rate_metric("prefill", case, num_tokens, times.prefill_seconds, least_prefill),
        rate_metric("decode", case, case.batch, times.decode_seconds, least_decode),
    ]


def rate_metric(
    phase: str, case: Case, num_tokens: int, seconds: Sequence[float], least_seconds: float
) -> Metric:
    metric = Metric(
        name=metric_name(phase, case),
        unit="tokens/s",
        better="higher",
        samples=[num_tokens / value for value in seconds],
    )
    share = metric.summary.median * least_seconds / num_tokens
    return Metric(
        name=metric.name, unit=metric.unit, better="higher", samples=metric.samples, share=share
    )


def metric_name(phase: str, case: Case) -> str:
    return f"{phase} context {case.context} batch {case.batch}"


def latency_chart(report: Report) -> str:
    """Decode rates by batch size, a line for each context."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for metric in report.metrics:
        phase, _, context, _, batch = metric.name.split(" ")
        if phase == "decode":
            point = (float(batch), metric.summary.median)
            lines.setdefault(f"context {context}", []).append(point)
    drawn = [Line(label, points) for label, points in lines.items()]
    return line_chart(f"Decode, {report.model}", "sequences at once", "tokens/s", drawn)


def configure_throughput(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument("--num-prompts", type=positive, default=32, metavar="N")
    parser.add_argument("--input-len", default="512", metavar="LENGTHS", help=FORMS)
    parser.add_argument("--output-len", default="128", metavar="LENGTHS", help=FORMS)
    parser.add_argument("--repeats", type=positive, default=1, metavar="N")
    add_output(parser)
    add_engine(parser)
    parser.set_defaults(execute=run_throughputs)


def run_throughputs(namespace: argparse.Namespace) -> int:
    check_files(namespace)
    parse_all_lengths(namespace)
    engine = load(engine_config(read_options(namespace, EngineConfig)[EngineConfig]))
    try:
        runs = measure_runs(engine, namespace)
    finally:
        engine.close()
    resolved = engine.front.resolved.config
    assert resolved.threads is not None
    asked = ("num_prompts", "input_len", "output_len")
    report = Report(
        kind="throughput",
        created=now(),
        machine=fingerprint(resolved.threads, resolved.isa),
        model=engine.front.path.name,
        settings={
            **engine_settings(engine.front),
            **{name: getattr(namespace, name) for name in asked},
        },
        metrics=throughput_metrics(runs),
    )
    deliver(report, namespace)
    return 0


def parse_all_lengths(namespace: argparse.Namespace) -> tuple[Lengths, Lengths]:
    """Of prompts and answers."""
    inputs = parse_lengths(namespace.input_len, "--input-len")
    return inputs, parse_lengths(namespace.output_len, "--output-len")


def measure_runs(local: LocalEngine, namespace: argparse.Namespace) -> list[Run]:
    """Each with an engine and prompts of its own, so that no prefix cache knows them."""
    inputs, outputs = parse_all_lengths(namespace)
    vocab_size = local.front.model.vocab_size
    runs = []
    for repeat in range(namespace.repeats):
        seed = local.front.resolved.config.seed + repeat
        requests = make_requests(namespace.num_prompts, inputs, outputs, vocab_size, seed)
        with counting_bar("Prompts") as report:
            engine = make_engine(local.front.resolved.config, local.runner, local.front.tokenizer)
            runs.append(run_throughput(engine, requests, report))
    return runs


def throughput_metrics(runs: Sequence[Run]) -> list[Metric]:
    def metric(name: str, unit: str, samples: list[float]) -> Metric:
        return Metric(name=name, unit=unit, better="higher", samples=samples)

    def total(run: Run) -> int:
        return run.num_prompt_tokens + run.num_output_tokens

    return [
        metric("requests", "requests/s", [run.num_requests / run.seconds for run in runs]),
        metric("output tokens", "tokens/s", [run.num_output_tokens / run.seconds for run in runs]),
        metric("all tokens", "tokens/s", [total(run) / run.seconds for run in runs]),
    ]
