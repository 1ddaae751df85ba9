"""`octavo simulate`: the scheduler, driven in virtual time by a model of a machine."""

from __future__ import annotations

import argparse
from pathlib import Path

from octavo.bench.report import Setting
from octavo.entrypoints.cli import simulate_fit
from octavo.entrypoints.cli.bench_machine import positive
from octavo.entrypoints.cli.bench_output import add_output, check_files
from octavo.entrypoints.cli.simulate_inputs import (
    ENGINE_OPTIONS,
    add_engines,
    add_machine,
    add_trace,
    num_devices,
    setup_of,
    source_of,
)
from octavo.entrypoints.cli.simulate_output import show
from octavo.entrypoints.progress import counting_bar, note
from octavo.errors import ConfigError
from octavo.simulate.charts import draw
from octavo.simulate.report import report_of, report_to_json
from octavo.simulate.search import Attempt, search_replicas
from octavo.simulate.simulation import Run, simulate
from octavo.simulate.slo import FORMS, Slo, parse_slo

SEARCHES = ("replicas",)


def configure(parser: argparse.ArgumentParser) -> None:
    add_machine(parser)
    add_engines(parser)
    add_trace(parser)
    add_question(parser)
    add_output(parser, has_plot=True)
    parser.set_defaults(execute=execute)
    commands = parser.add_subparsers(metavar="[fit]")
    simulate_fit.configure(
        commands.add_parser(
            "fit",
            help="make a profile of this machine",
            description="Make a profile out of a server's answers or a report of `bench latency`.",
        )
    )


def add_question(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("targets")
    group.add_argument("--slo", metavar="TARGETS", help=f"{FORMS}: ttft=0.5,tpot=0.05")
    group.add_argument(
        "--slo-percent",
        type=float,
        default=99.0,
        metavar="P",
        help="of the requests must keep them (default: 99)",
    )
    group.add_argument(
        "--search", choices=SEARCHES, help="the fewest that keep --slo, instead of --replicas"
    )
    group.add_argument("--search-limit", type=positive, default=10_000, metavar="N")


def execute(namespace: argparse.Namespace) -> int:
    check_files(namespace)
    slo = parse_slo(namespace.slo, namespace.slo_percent / 100) if namespace.slo else None
    run, attempts = _run(namespace, slo)
    report = report_of(run, _settings(namespace, run), slo)
    show(report, attempts)
    if namespace.output is not None:
        namespace.output.write_bytes(report_to_json(report))
        note(f"wrote {namespace.output}")
    if namespace.plot is not None:
        if not report.latencies:
            raise ConfigError("--plot: no request was answered, so that there is nothing to draw")
        namespace.plot.write_text(draw(run, report), encoding="utf-8")
        note(f"wrote {namespace.plot}")
    return 0


def _run(namespace: argparse.Namespace, slo: Slo | None) -> tuple[Run, list[Attempt]]:
    setup, source = setup_of(namespace), source_of(namespace)
    if namespace.search is None:
        with counting_bar("Simulating") as report:
            return simulate(setup, source, report), []
    if slo is None:
        raise ConfigError("--search replicas needs --slo: what the replicas shall keep")
    found = search_replicas(setup, source, slo, namespace.search_limit, _tell)
    return found.run, found.attempts


def _tell(attempt: Attempt) -> None:
    verdict = "enough" if attempt.is_enough else "too few"
    shares = f"{attempt.kept_share:.2%} in time, {attempt.backlog_share:.2%} pile up"
    note(f"{attempt.num_replicas} replicas: {shares}: {verdict}")


def _settings(namespace: argparse.Namespace, run: Run) -> dict[str, Setting]:
    engine = run.setup.engine
    left_out = ("execute", "output", "plot", "search_limit", "config", "replicas")
    asked = {
        name: value if isinstance(value, int | float | str) or value is None else _text(value)
        for name, value in vars(namespace).items()
        if name not in left_out
    }
    decided = {name: getattr(engine, name) for name in ENGINE_OPTIONS}
    return {
        **asked,
        **decided,
        "num_pages": run.setup.num_pages,
        "replicas": run.setup.num_replicas,
        "devices": run.setup.num_replicas * num_devices(namespace),
    }


def _text(value: object) -> str:
    if isinstance(value, Path):
        return str(value)
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)
