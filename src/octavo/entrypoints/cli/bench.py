"""`octavo bench`: the subcommands and their flags. What they do stands in the modules beside."""

from __future__ import annotations

import argparse

from octavo.entrypoints.cli import bench_compare, bench_local, bench_machine, bench_serve

SUBJECTS = {
    "latency": (bench_local.configure_latency, "prefill and decode by context and batch size"),
    "throughput": (bench_local.configure_throughput, "many prompts at once, without a server"),
    "serve": (bench_serve.configure, "load on a running server, as OpenAI's API"),
    "startup": (bench_machine.configure_startup, "time from a cold process to a ready server"),
    "machine": (bench_machine.configure_machine, "memory bandwidth and arithmetic rates"),
    "compare": (bench_compare.configure, "two reports: what differs by more than chance"),
}


def configure(parser: argparse.ArgumentParser) -> None:
    subjects = parser.add_subparsers(metavar="SUBJECT", required=True)
    for name, (add_flags, summary) in SUBJECTS.items():
        add_flags(
            subjects.add_parser(
                name, help=summary, description=f"{summary[:1].upper()}{summary[1:]}."
            )
        )
