"""From JSON reports to the tables and charts of docs/performance.md.

    PYTHONPATH=src:. python -m benchmarks.report docs/performance/*.json [--page PAGE]

Replaces what stands between the page's two marker lines, and writes charts beside the reports. One
file's figures become one table; its heading is the model's name. Measures nothing.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from benchmarks.targets import targets_of
from octavo.bench.report import Metric, Report, report_from_json
from octavo.bench.svg import Line, line_chart
from octavo.entrypoints.cli.bench_output import UNITS, machine_line, number, rates_line
from octavo.errors import ConfigError

BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"
OCTAVO, PEERS = "octavo", ("llama.cpp", "openvino", "vllm", "transformers")
PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
Files = Sequence[tuple[Path, Report]]
Lines = dict[str, list[tuple[float, float]]]
"""Points of a chart by label."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("reports", nargs="+", type=Path, metavar="FILE.json")
    parser.add_argument("--page", type=Path, default=PAGE)
    arguments = parser.parse_args()
    files = [(path, report_from_json(path.read_bytes(), str(path))) for path in arguments.reports]
    draw_charts(files)
    page = arguments.page.read_text(encoding="utf-8")
    text = "\n".join(sections(files, arguments.page.parent))
    arguments.page.write_text(replaced(page, text), encoding="utf-8")


def replaced(page: str, text: str) -> str:
    """The page with `text` between its markers. Raises ConfigError without them."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ConfigError(f"the page lacks the lines {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{text}\n{END}{after}"


def sections(files: Files, folder: Path) -> Iterable[str]:
    """Markdown, by kind of report. Paths of charts are relative to `folder`."""
    yield from machines(files)
    for kind, (title, table) in KINDS.items():
        chosen = [(path, report) for path, report in files if report.kind == kind]
        if not chosen:
            continue
        yield f"\n### {title}\n"
        if kind == "perplexity":
            yield from perplexity_table([report for _, report in chosen])
            continue
        for path, report in chosen:
            yield heading(report) + "\n"
            yield from table(report)
            yield ""
            chart = path.with_suffix(".svg")
            if chart.exists():
                yield f"![{title}, {report.model}]({os.path.relpath(chart, folder)})\n"


def machines(files: Files) -> Iterable[str]:
    """Each machine, commit and measured limits once."""
    for line in dict.fromkeys(machine_line(report.machine) for _, report in files):
        yield f"- {line}"
    limits = [report.rates for _, report in files if report.rates is not None]
    if limits:
        best = max(limits, key=lambda rates: rates.bytes_per_second)
        yield f"- {rates_line(best)}"


def heading(report: Report) -> str:
    shown = [
        f"{name} {value}" for name, value in report.settings.items() if value not in ("", None)
    ]
    return f"**{report.model}**" + (f" ({', '.join(shown)})" if shown else "")


def contest_table(report: Report) -> Iterable[str]:
    """octavo's rates, and for each peer its rate, the ratio of the rounds, and what is wanted."""
    metrics = {metric.name: metric for metric in report.metrics}
    targets = targets_of(report)
    peers = [peer for peer in PEERS if any(name.startswith(peer) for name in metrics)]
    whats = [name.removeprefix(OCTAVO) for name in metrics if is_rate_of(name, OCTAVO)]
    has_share = any(metric.share is not None for metric in report.metrics)
    head = ["tokens/s", OCTAVO, *(["of limit"] if has_share else [])]
    for peer in peers:
        head += [peer, "octavo is", "wanted"]
    yield from header(head)
    for what in whats:
        mine = metrics[f"{OCTAVO}{what}"]
        cells = [what.strip(" ,"), number(mine.summary.median)]
        if has_share:
            wanted = targets.get(f"{OCTAVO}{what} share")
            share = "" if mine.share is None else f"{mine.share:.0%}"
            cells.append(share + (f" (wanted {wanted:.0%})" if wanted else ""))
        for peer in peers:
            cells += peer_cells(metrics, targets, peer, what)
        yield row(cells)


def is_rate_of(name: str, contender: str) -> bool:
    return name.startswith(contender) and not name.startswith(f"{contender} / ")


def peer_cells(
    metrics: dict[str, Metric], targets: dict[str, float], peer: str, what: str
) -> list[str]:
    name = f"{OCTAVO} / {peer}{what}"
    if name not in metrics:
        return ["", "", ""]
    ratio = metrics[name].summary
    wanted = targets.get(name)
    verdict = ""
    if wanted is not None:
        verdict = f"{wanted:g} × {'✓' if ratio.median >= wanted else '✗'}"
    shown = f"{ratio.median:.2f} × [{ratio.least:.2f}, {ratio.most:.2f}]"
    return [number(metrics[f"{peer}{what}"].summary.median), shown, verdict]


def metrics_table(report: Report) -> Iterable[str]:
    has_share = any(metric.share is not None for metric in report.metrics)
    yield from header(["", "median", "unit", *(["of limit"] if has_share else [])])
    for metric in report.metrics:
        factor, unit = UNITS.get(metric.unit, (1.0, metric.unit))
        cells = [metric.name, number(factor * metric.summary.median), unit]
        if has_share:
            cells.append("" if metric.share is None else f"{metric.share:.0%}")
        yield row(cells)


def profile_table(report: Report) -> Iterable[str]:
    """Kernels by their share of the step, for each number of tokens."""
    medians = {metric.name: metric.summary.median for metric in report.metrics}
    steps = list(dict.fromkeys(name.partition(": ")[0] for name in medians))
    kernels = list(dict.fromkeys(name.partition(": ")[2] for name in medians))
    totals = {
        step: sum(value for name, value in medians.items() if name.startswith(f"{step}: "))
        for step in steps
    }
    yield from header(["kernel", *(f"{step}: {totals[step] * 1e3:.2f} ms" for step in steps)])
    for kernel in kernels:
        shares = (medians.get(f"{step}: {kernel}", 0.0) / totals[step] for step in steps)
        yield row([f"`{kernel}`", *(f"{share:.1%}" for share in shares)])


def perplexity_table(reports: Sequence[Report]) -> Iterable[str]:
    """One row for each model: perplexities, and what they exceed the reference by."""
    names = list(
        dict.fromkeys(
            name for report in reports for name in report.results if not name.endswith("%")
        )
    )
    yield from header(["model", *names])
    for report in reports:
        cells = [
            report.model + (f", {report.settings['octavo']}" if report.settings["octavo"] else "")
        ]
        for name in names:
            value, excess = report.results.get(name), report.results.get(f"{name}, excess in %")
            shown = "" if value is None else f"{value:.4f}"
            cells.append(shown if excess is None else f"{shown} ({excess:+.2f} %)")
        yield row(cells)


def header(cells: Sequence[str]) -> Iterable[str]:
    yield row(cells)
    yield row(["---"] * len(cells))


def row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def draw_charts(files: Files) -> None:
    """Beside each report that has points to draw."""
    for path, report in files:
        lines = CHARTS[report.kind](report) if report.kind in CHARTS else {}
        if lines:
            path.with_suffix(".svg").write_text(chart(report, lines), encoding="utf-8")


def chart(report: Report, lines: Lines) -> str:
    drawn = [Line(label, points) for label, points in lines.items()]
    title = f"{KINDS[report.kind][0]}, {report.model}"
    return line_chart(title, "sequences at once", "tokens/s", drawn)


def serving_lines(report: Report) -> Lines:
    """Output tokens per second by clients, a line for each contender."""
    lines: Lines = {}
    for metric in report.metrics:
        contender, _, what = metric.name.partition(", ")
        if metric.unit == "tokens/s" and what.endswith(" clients"):
            clients = float(what.removesuffix(" clients"))
            lines.setdefault(contender, []).append((clients, metric.summary.median))
    return lines


def contest_lines(report: Report) -> Lines:
    """Decode rates by sequences at once, a line for each contender."""
    lines: Lines = {}
    for metric in report.metrics:
        contender, _, what = metric.name.partition(" decode")
        if metric.unit == "tokens/s" and contender != metric.name:
            batch = float(what.removeprefix(" batch ") or 1)
            lines.setdefault(contender, []).append((batch, metric.summary.median))
    return lines


def latency_lines(report: Report) -> Lines:
    """octavo's decode rates by sequences at once, a line for each context."""
    lines: Lines = {}
    for metric in report.metrics:
        phase, _, context, _, batch = metric.name.split(" ")
        if phase == "decode":
            point = (float(batch), metric.summary.median)
            lines.setdefault(f"context {context}", []).append(point)
    return lines


KINDS: dict[str, tuple[str, Callable[[Report], Iterable[str]]]] = {
    "side-by-side": ("Prefill and decode", contest_table),
    "serving side by side": ("Serving", contest_table),
    "latency": ("By context and batch", metrics_table),
    "step-profile": ("Where a step's time goes", profile_table),
    "startup": ("Starting", metrics_table),
    "perplexity": ("Accuracy", metrics_table),
}
"""Title and table of each kind of report, in the order of the page."""

CHARTS: dict[str, Callable[[Report], Lines]] = {
    "side-by-side": contest_lines,
    "serving side by side": serving_lines,
    "latency": latency_lines,
}


if __name__ == "__main__":
    main()
