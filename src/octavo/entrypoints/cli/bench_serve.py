"""`octavo bench serve`: a load on any OpenAI-compatible server, and what its clients saw."""

from __future__ import annotations

import argparse
import asyncio
import time
from collections import Counter
from collections.abc import Sequence

from octavo.bench.fingerprint import fingerprint
from octavo.bench.lengths import FORMS, parse_lengths
from octavo.bench.load import (
    CHAT,
    COMPLETIONS,
    LoadError,
    Outcome,
    Server,
    first_model,
    processor_time,
    run_load,
)
from octavo.bench.report import Report, Setting, now
from octavo.bench.serving import latency_metrics, parse_goodput, serving_results
from octavo.bench.svg import Line, line_chart
from octavo.bench.workload import Workload, poisson_arrivals
from octavo.config.machine import this_machine
from octavo.entrypoints.cli.bench_machine import positive
from octavo.entrypoints.cli.bench_output import add_output, check_files, deliver
from octavo.entrypoints.progress import counting_bar, note
from octavo.errors import ConfigError

NUM_SHOWN_ERRORS = 5


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--base-url", default="http://127.0.0.1:8000", metavar="URL")
    parser.add_argument(
        "--endpoint", default=COMPLETIONS, metavar="PATH", help=f"{COMPLETIONS} or {CHAT}"
    )
    parser.add_argument("--model", default="", help="(default: the first that the server lists)")
    parser.add_argument("--api-key", default="", metavar="KEY")
    parser.add_argument("--timeout", type=float, default=600.0, metavar="SECONDS")
    add_workload(parser)
    parser.add_argument(
        "--max-concurrency", type=positive, metavar="N", help="closed loop: so many at once"
    )
    parser.add_argument(
        "--request-rate", type=float, metavar="PER_SECOND", help="open loop: Poisson arrivals"
    )
    parser.add_argument(
        "--goodput",
        nargs="+",
        default=[],
        metavar="KIND:MS",
        help="count the requests that keep these, such as ttft:500 tpot:50 e2el:5000",
    )
    parser.add_argument(
        "--profile",
        action="store_true",
        help="of octavo's server: the processor time of its parts, without this generator's",
    )
    parser.add_argument("--num-warmups", type=int, default=1, metavar="N", help="(default: 1)")
    add_output(parser, has_plot=True)
    parser.set_defaults(execute=execute)


def add_workload(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--num-prompts", type=positive, default=64, metavar="N")
    parser.add_argument("--input-len", default="200", metavar="LENGTHS", help=FORMS)
    parser.add_argument("--output-len", default="128", metavar="LENGTHS", help=FORMS)
    parser.add_argument(
        "--prefix-len", type=int, default=0, metavar="TOKENS", help="beginning shared by all"
    )
    parser.add_argument("--ignore-eos", action="store_true", help="answers of full length (vLLM's)")
    parser.add_argument("--seed", type=int, default=0, metavar="N")


def execute(namespace: argparse.Namespace) -> int:
    check(namespace)
    goodput = parse_goodput(namespace.goodput)
    workload = Workload(
        num_prompts=namespace.num_prompts,
        input_lengths=parse_lengths(namespace.input_len, "--input-len"),
        output_lengths=parse_lengths(namespace.output_len, "--output-len"),
        num_prefix_tokens=namespace.prefix_len,
        seed=namespace.seed,
    )
    server = asyncio.run(find_server(namespace))
    outcomes, duration, processor = asyncio.run(generate_load(server, workload, namespace))
    report = Report(
        kind="serve",
        created=now(),
        machine=fingerprint(this_machine().num_cores),
        model=server.model,
        settings=settings_of(namespace),
        metrics=latency_metrics(outcomes),
        results={**serving_results(outcomes, duration, goodput), **processor},
    )
    deliver(report, namespace, lambda _: latency_chart(server.model, outcomes))
    show_errors(outcomes)
    return 1 if any(outcome.error for outcome in outcomes) else 0


def check(namespace: argparse.Namespace) -> None:
    check_files(namespace)
    rate = namespace.request_rate
    if rate is not None and not 0 < rate < 1e6:
        raise ConfigError(f"--request-rate is {rate}; a number above 0 and below 1e6 is allowed")
    for flag in ("prefix_len", "num_warmups"):
        if getattr(namespace, flag) < 0:
            name = flag.replace("_", "-")
            raise ConfigError(f"--{name} is {getattr(namespace, flag)}; 0 or more is allowed")


async def find_server(namespace: argparse.Namespace) -> Server:
    def server(model: str) -> Server:
        return Server(
            base_url=namespace.base_url,
            endpoint=namespace.endpoint,
            model=model,
            api_key=namespace.api_key,
            ignore_eos=namespace.ignore_eos,
            timeout_seconds=namespace.timeout,
        )

    return server(namespace.model or await first_model(server("")))


async def generate_load(
    server: Server, workload: Workload, namespace: argparse.Namespace
) -> tuple[list[Outcome], float, dict[str, float]]:
    """The outcomes, the seconds from the first request's start to the last one's end, and the
    figures of --profile.

    Raises LoadError when a warm-up fails: all else would, too.
    """
    requests = workload.requests()
    if namespace.num_warmups:
        await warm_up(server, workload, namespace.num_warmups)
    before = await processor_time(server) if namespace.profile else None
    arrivals = None
    if namespace.request_rate is not None:
        arrivals = list(poisson_arrivals(len(requests), namespace.request_rate, workload.seed))
    with counting_bar("Requests") as report:
        start = time.perf_counter()
        outcomes = await run_load(
            server,
            requests,
            arrivals=arrivals,
            max_concurrency=namespace.max_concurrency,
            on_finished=report,
        )
        duration = time.perf_counter() - start
    if before is None:
        return outcomes, duration, {}
    return outcomes, duration, (await processor_time(server)).since(before).results()


async def warm_up(server: Server, workload: Workload, num_prompts: int) -> None:
    """With other words than the measured ones: the prefix cache must not know them."""
    warmup = Workload(
        num_prompts=num_prompts,
        input_lengths=workload.input_lengths,
        output_lengths=workload.output_lengths,
        seed=workload.seed + 1,
    )
    for outcome in await run_load(server, warmup.requests(), max_concurrency=1):
        if outcome.error:
            raise LoadError(f"{server.base_url} failed to answer: {outcome.error}")


def settings_of(namespace: argparse.Namespace) -> dict[str, Setting]:
    names = (
        *("base_url", "endpoint", "num_prompts", "input_len", "output_len", "prefix_len"),
        *("ignore_eos", "seed", "max_concurrency", "request_rate"),
    )
    settings: dict[str, Setting] = {name: getattr(namespace, name) for name in names}
    return settings


def latency_chart(model: str, outcomes: Sequence[Outcome]) -> str:
    """Time to the first token and to the last, by the share of requests that had it by then."""
    good = [outcome for outcome in outcomes if not outcome.error]
    if not good:
        raise ConfigError("--plot: no request finished, so that there is nothing to draw")
    curves = {
        "first token": sorted(outcome.ttft for outcome in good),
        "last token": sorted(outcome.latency for outcome in good),
    }
    lines = [
        Line(label, [(100 * (i + 1) / len(times), time) for i, time in enumerate(times)])
        for label, times in curves.items()
    ]
    return line_chart(f"Latency, {model}", "% of requests", "seconds", lines)


def show_errors(outcomes: Sequence[Outcome]) -> None:
    counts = Counter(outcome.error for outcome in outcomes if outcome.error)
    for error, count in counts.most_common(NUM_SHOWN_ERRORS):
        note(f"{count} requests failed: {error}")
