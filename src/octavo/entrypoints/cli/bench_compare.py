"""`octavo bench compare`: two reports side by side, with a verdict for each metric."""

from __future__ import annotations

import argparse
import math
from pathlib import Path

from rich.table import Table

from octavo.bench.compare import LEAST_NOISE, Difference, compare_reports, machine_differences
from octavo.bench.report import Report, report_from_json
from octavo.entrypoints.cli.bench_output import make_console, number
from octavo.errors import ConfigError


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("first", type=Path, metavar="A.json")
    parser.add_argument("second", type=Path, metavar="B.json")
    parser.add_argument(
        "--fail-if-worse", action="store_true", help="exit code 1 if a metric got worse"
    )
    parser.add_argument(
        "--least-noise",
        type=float,
        default=100 * LEAST_NOISE,
        metavar="PERCENT",
        help="smaller differences count as none (default: %(default)g)",
    )
    parser.set_defaults(execute=execute)


def execute(namespace: argparse.Namespace) -> int:
    if not 0 <= namespace.least_noise <= 100:
        raise ConfigError(f"--least-noise is {namespace.least_noise}; 0 to 100 percent is allowed")
    first, second = read(namespace.first), read(namespace.second)
    differences = compare_reports(first, second, namespace.least_noise / 100)
    if not differences:
        raise ConfigError(
            f"{namespace.first} ({first.kind}) and {namespace.second} ({second.kind})"
            " have no metric in common"
        )
    console = make_console()
    for line in machine_differences(first, second):
        console.print(f"differs: {line}")
    console.print(table_of(differences))
    is_worse = any(difference.verdict == "worse" for difference in differences)
    return 1 if is_worse and namespace.fail_if_worse else 0


def read(path: Path) -> Report:
    return report_from_json(path.read_bytes(), str(path))


def table_of(differences: list[Difference]) -> Table:
    table = Table(box=None, header_style="bold")
    table.add_column("what", no_wrap=True)
    for name in ("A", "B", "B / A", "noise"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for one in differences:
        noise = "one run" if math.isinf(one.noise) else f"{one.noise:.1%}"
        values = (number(one.first), number(one.second), f"{one.ratio:.3f}")
        table.add_row(one.name, *values, noise, one.verdict)
    return table
