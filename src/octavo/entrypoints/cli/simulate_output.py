"""How a simulation is shown on the terminal. Decides nothing about what is told."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from octavo.entrypoints.cli.bench_output import make_console, number
from octavo.simulate.report import SimulationReport, Spread
from octavo.simulate.search import Attempt

UNITS = {
    "duration_seconds": "s",
    "drain_seconds": "s",
    "request_throughput": "requests/s",
    "output_throughput": "tokens/s",
    "total_token_throughput": "tokens/s",
    "goodput": "requests/s in time",
}
MAX_TENANTS = 20


def show(report: SimulationReport, attempts: Sequence[Attempt]) -> None:
    console = make_console()
    _show_lines(console, "taken for granted", report.assumptions)
    if report.latencies:
        console.print(_latency_table(report))
    console.print(_figure_table(report))
    if len(report.tenants) > 1:
        console.print(_tenant_table(report))
    _show_lines(console, "left out", report.left_out)
    if attempts:
        console.print(_answer(report))


def _show_lines(console: Console, title: str, lines: Sequence[str]) -> None:
    console.print(f"{title}:")
    for line in lines:
        console.print(f"  {line}")


def _table(*columns: str) -> Table:
    table = Table(columns[0], box=None, header_style="bold")
    for column in columns[1:]:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def _latency_table(report: SimulationReport) -> Table:
    table = _table("milliseconds", "mean", "p50", "p90", "p99", "most")
    for kind, spread in report.latencies.items():
        table.add_row(kind, *_cells(spread))
    return table


def _cells(spread: Spread) -> list[str]:
    values = (spread.mean, spread.p50, spread.p90, spread.p99, spread.most)
    return [number(1e3 * value) for value in values]


def _figure_table(report: SimulationReport) -> Table:
    table = _table("figure", "value")
    table.add_column("")
    for name, value in report.results.items():
        is_share = "share" in name
        shown = f"{value:.2%}" if is_share else number(value)
        table.add_row(name, shown, UNITS.get(name, ""))
    return table


def _tenant_table(report: SimulationReport) -> Table:
    columns = ("requests", "expired", "refused", "tokens", "ttft p50", "ttft p99", "e2e p99")
    table = _table("tenant (ms)", *columns)
    for one in report.tenants[:MAX_TENANTS]:
        counts = (one.num_finished, one.num_expired, one.num_refused, one.num_output_tokens)
        times = (one.ttft.p50, one.ttft.p99, one.e2e.p99)
        table.add_row(
            one.tenant or "(none)", *map(str, counts), *(number(1e3 * value) for value in times)
        )
    return table


def _answer(report: SimulationReport) -> str:
    settings = report.settings
    return (
        f"answer: {settings['replicas']} replicas, {settings['devices']} devices keep"
        f" {settings['slo']} for {report.results['slo_share']:.2%} of the requests"
    )
