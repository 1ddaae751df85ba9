"""`octavo simulate fit`: a profile of this machine, for `octavo simulate --profile`."""

from __future__ import annotations

import argparse
from pathlib import Path

from octavo.bench.report import report_from_json
from octavo.entrypoints.cli.bench_output import check_files, make_console
from octavo.entrypoints.progress import note
from octavo.simulate.from_report import fit_report
from octavo.simulate.measured import MeasuredTimes, profile_to_json


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "report", type=Path, metavar="REPORT.json", help="of `octavo bench latency`"
    )
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write the profile")
    parser.set_defaults(execute=execute)


def execute(namespace: argparse.Namespace) -> int:
    check_files(namespace)
    path = namespace.report
    profile = fit_report(report_from_json(path.read_bytes(), str(path)), str(path))
    console = make_console()
    for line in MeasuredTimes(profile).assumptions:
        console.print(line)
    if namespace.output is not None:
        namespace.output.write_bytes(profile_to_json(profile))
        note(f"wrote {namespace.output}")
    return 0
