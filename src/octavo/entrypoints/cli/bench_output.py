"""How benchmark reports are shown: tables on the terminal, JSON and charts in files."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from octavo.bench.fingerprint import Fingerprint
from octavo.bench.machine import MachineRates
from octavo.bench.report import Metric, Report, report_to_json
from octavo.entrypoints.progress import note
from octavo.errors import ConfigError

FILE_COLUMNS = 200

UNITS = {
    "tokens/s": (1.0, "tokens/s"),
    "s": (1e3, "ms"),
    "bytes": (1 / (1 << 20), "MiB"),
}
"""How a unit is shown: factor and name. Others are shown as they are."""


def add_output(parser: argparse.ArgumentParser, *, has_plot: bool = False) -> None:
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write the JSON report")
    if has_plot:
        parser.add_argument("--plot", type=Path, metavar="FILE.svg", help="draw the result as SVG")


def check_files(namespace: argparse.Namespace) -> None:
    """Raise ConfigError for files that could not be written after a long run."""
    plot = getattr(namespace, "plot", None)
    if plot is not None and plot.suffix != ".svg":
        raise ConfigError(f"--plot is {str(plot)!r}; a name that ends in .svg is allowed")
    for path in (namespace.output, plot):
        if path is not None and not path.absolute().parent.is_dir():
            raise ConfigError(f"{path}: its folder does not exist")


def deliver(
    report: Report, namespace: argparse.Namespace, draw: Callable[[Report], str] | None = None
) -> None:
    """Show a report and write the files that were asked for."""
    show(report)
    if namespace.output is not None:
        namespace.output.write_bytes(report_to_json(report))
        note(f"wrote {namespace.output}")
    if draw is not None and namespace.plot is not None:
        namespace.plot.write_text(draw(report), encoding="utf-8")
        note(f"wrote {namespace.plot}")


def show(report: Report) -> None:
    console = make_console()
    console.print(machine_line(report.machine))
    if report.model:
        settings = ", ".join(f"{key} {value}" for key, value in report.settings.items())
        console.print(f"{report.model}: {settings}" if settings else report.model)
    if report.rates is not None:
        console.print(rates_line(report.rates))
    if report.results:
        console.print(results_table(report))
    if report.metrics:
        console.print(metrics_table(report.metrics))
    for line in report.skipped:
        console.print(f"left out: {line}")


def machine_line(machine: Fingerprint) -> str:
    commit = f" ({machine.commit})" if machine.commit else ""
    return (
        f"{machine.processor}, {machine.num_cores} cores, {machine.isa_level}, "
        f"{machine.threads} threads, octavo {machine.octavo}{commit}"
    )


def rates_line(rates: MachineRates) -> str:
    has_bf16 = rates.bf16_operations_per_second > rates.f32_operations_per_second
    bf16 = f", bfloat16 {rates.bf16_operations_per_second / 1e9:.0f} GFLOP/s" if has_bf16 else ""
    return (
        f"limits: memory {rates.bytes_per_second / 1e9:.1f} GB/s"
        f" (cache {rates.cached_bytes_per_second / 1e9:.0f}), "
        f"int8 {rates.int8_operations_per_second / 1e9:.0f} Gop/s, "
        f"float32 {rates.f32_operations_per_second / 1e9:.0f} GFLOP/s{bf16}"
    )


def metrics_table(metrics: Sequence[Metric]) -> Table:
    """Rates with their range, times with their upper percentiles."""
    are_rates = all(metric.better == "higher" for metric in metrics)
    columns = ("median", "least", "most") if are_rates else ("median", "mean", "p90", "p99")
    has_share = any(metric.share is not None for metric in metrics)
    table = Table(box=None, header_style="bold")
    table.add_column("what", no_wrap=True)
    for name in ("runs", *columns):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("unit", no_wrap=True)
    if has_share:
        table.add_column("of limit", justify="right", no_wrap=True)
    for metric in metrics:
        factor, unit = UNITS.get(metric.unit, (1.0, metric.unit))
        summary = metric.summary
        values = [number(factor * getattr(summary, name)) for name in columns]
        share = "" if metric.share is None else f"{metric.share:.0%}"
        cells = [metric.name, str(len(metric.samples)), *values, unit]
        table.add_row(*cells, *([share] if has_share else []))
    return table


def results_table(report: Report) -> Table:
    table = Table("figure", box=None, header_style="bold")
    table.add_column("value", justify="right")
    shown_below = {f"_{metric.name}_" for metric in report.metrics}
    for name, value in report.results.items():
        if not any(part in name for part in shown_below):
            table.add_row(name, number(value))
    return table


def number(value: float) -> str:
    """Four significant digits, never as a power of ten."""
    if value == round(value) and abs(value) < 1e15:
        return f"{value:.0f}"
    digits = 3 if abs(value) < 10 else 2 if abs(value) < 100 else 1 if abs(value) < 1000 else 0
    return f"{value:.{digits}f}"


def make_console() -> Console:
    """As wide as the terminal; a file takes lines of any length."""
    width = None if sys.stdout.isatty() else FILE_COLUMNS
    return Console(soft_wrap=True, highlight=False, markup=False, width=width)
