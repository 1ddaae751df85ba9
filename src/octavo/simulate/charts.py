"""The charts of a simulation in one SVG document, one below the other."""

from __future__ import annotations

from collections.abc import Sequence

from octavo.bench.svg import HEIGHT, WIDTH, Line, line_chart
from octavo.simulate.report import SimulationReport
from octavo.simulate.simulation import Run

MAX_POINTS = 200
"""Of a curve of percentiles: a document of a million points shows no more."""

MAX_TENANTS = 8


def draw(run: Run, report: SimulationReport) -> str:
    """Raises ValueError if nothing was answered."""
    return stack([*_latency_charts(run), *_timeline_charts(report)])


def stack(charts: Sequence[str]) -> str:
    height = HEIGHT * len(charts)
    placed = [
        chart.replace("<svg ", f'<svg y="{HEIGHT * place}" width="{WIDTH}" height="{HEIGHT}" ', 1)
        for place, chart in enumerate(charts)
    ]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}">\n'
    return head + "".join(placed) + "</svg>\n"


def _latency_charts(run: Run) -> list[str]:
    everyone = run.records.all_finished()
    lines = [
        Line("first token", _quantiles(everyone.ttft)),
        Line("last token", _quantiles(everyone.latency)),
    ]
    charts = [line_chart("Latency", "% of requests", "seconds", lines)]
    tenants = sorted(run.records.finished.items())[:MAX_TENANTS]
    if len(tenants) > 1:
        each = [Line(name or "(none)", _quantiles(one.ttft)) for name, one in tenants]
        charts.append(line_chart("First token by tenant", "% of requests", "seconds", each))
    return charts


def _timeline_charts(report: SimulationReport) -> list[str]:
    running = [(seconds, float(count)) for seconds, count, _, _ in report.timeline]
    waiting = [(seconds, float(count)) for seconds, _, count, _ in report.timeline]
    pages = [(seconds, 100 * share) for seconds, _, _, share in report.timeline]
    lines = [Line("running", running), Line("waiting", waiting)]
    return [
        line_chart("Requests over time", "seconds", "requests", lines),
        line_chart("Pages over time", "seconds", "% in use", [Line("pages", pages)]),
    ]


def _quantiles(samples: Sequence[float]) -> list[tuple[float, float]]:
    ordered = sorted(samples)
    stride = max(1, len(ordered) // MAX_POINTS)
    chosen = [*range(0, len(ordered) - 1, stride), len(ordered) - 1]
    return [(100 * (at + 1) / len(ordered), ordered[at]) for at in chosen]
