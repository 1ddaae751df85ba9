"""`octavo simulate fit`: a profile of this machine, for `octavo simulate --profile`."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

import msgspec

from octavo.bench.fingerprint import fingerprint
from octavo.bench.lengths import FORMS, parse_lengths
from octavo.bench.load import COMPLETIONS, Server, first_model
from octavo.bench.report import report_from_json
from octavo.config.engine import EngineConfig
from octavo.config.machine import this_machine
from octavo.entrypoints.cli.bench_machine import positive
from octavo.entrypoints.cli.bench_output import check_files, make_console
from octavo.entrypoints.progress import counting_bar, note
from octavo.errors import ConfigError
from octavo.simulate.from_report import fit_report
from octavo.simulate.measured import MeasuredTimes, Profile, fit, profile_to_json
from octavo.simulate.probe import Plan, page_facts, probe
from octavo.simulate.under_load import (
    CLIENTS,
    LoadPlan,
    Observed,
    observe,
    profile_of,
    step_report,
)

PLAN = Plan()


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "origin",
        metavar="URL|REPORT.json",
        help="a server, otherwise idle, or a report of `octavo bench latency`",
    )
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write the profile")
    group = parser.add_argument_group("of octavo's server, which measures its own steps")
    group.add_argument(
        "--clients",
        type=positive,
        nargs="+",
        default=list(CLIENTS),
        metavar="N",
        help="closed loops of so many, one after the other (default: "
        + " ".join(map(str, CLIENTS))
        + ")",
    )
    group.add_argument("--input-len", default="uniform:16:256", metavar="LENGTHS", help=FORMS)
    group.add_argument("--output-len", default="uniform:8:40", metavar="LENGTHS")
    group.add_argument(
        "--no-load",
        action="store_true",
        help="send nothing: fit to what the server has just been doing for others",
    )
    group = parser.add_argument_group("of another server, by what its clients see")
    for flag, default, text in (
        ("--crowds", PLAN.crowds, "clients at once"),
        ("--contexts", PLAN.contexts, "words of their prompts"),
        ("--prompts", PLAN.prompts, "words of prompts that come alone"),
    ):
        shown = " ".join(map(str, default))
        group.add_argument(
            flag,
            type=positive,
            nargs="+",
            default=list(default),
            metavar="N",
            help=f"{text} (default: {shown})",
        )
    group = parser.add_argument_group("as the server was started with (defaults: as octavo's)")
    group.add_argument(
        "--max-num-seqs", type=positive, default=EngineConfig().max_num_seqs, metavar="N"
    )
    group.add_argument(
        "--max-num-batched-tokens",
        type=positive,
        default=EngineConfig().max_num_batched_tokens,
        metavar="TOKENS",
    )
    parser.set_defaults(execute=execute)


def execute(namespace: argparse.Namespace) -> int:
    check_files(namespace)
    is_url = namespace.origin.startswith(("http://", "https://"))
    profile = asyncio.run(_of_server(namespace)) if is_url else _of_report(Path(namespace.origin))
    console = make_console()
    for line in MeasuredTimes(profile).assumptions:
        console.print(line)
    if namespace.output is not None:
        namespace.output.write_bytes(profile_to_json(profile))
        note(f"wrote {namespace.output}")
    return 0


def _of_report(path: Path) -> Profile:
    return fit_report(report_from_json(path.read_bytes(), str(path)), str(path))


async def _of_server(namespace: argparse.Namespace) -> Profile:
    def server(model: str) -> Server:
        return Server(base_url=namespace.origin, endpoint=COMPLETIONS, model=model, ignore_eos=True)

    asked = server(await first_model(server("")))
    machine = fingerprint(this_machine().num_cores).processor
    pages = await page_facts(asked)
    return msgspec.structs.replace(
        await _measured(asked, namespace, machine),
        num_pages=pages.num_pages,
        page_windows=tuple(pages.windows),
        max_num_seqs=namespace.max_num_seqs,
        max_num_batched_tokens=namespace.max_num_batched_tokens,
    )


async def _measured(server: Server, namespace: argparse.Namespace, machine: str) -> Profile:
    """By the server's own steps if it tells them, else from outside."""
    report = await step_report(server)
    if namespace.no_load:
        if report is None or not report.steps:
            raise ConfigError(f"--no-load: {namespace.origin} tells of no step that it has done")
        return profile_of(Observed(report.steps, 0.0), server.model, machine)
    with counting_bar("Measuring") as on_measured:
        if report is None:
            return fit(await probe(server, _plan(namespace), on_measured), server.model, machine)
        plan = LoadPlan(
            input_lengths=parse_lengths(namespace.input_len, "--input-len"),
            output_lengths=parse_lengths(namespace.output_len, "--output-len"),
            clients=namespace.clients,
        )
        return profile_of(await observe(server, plan, on_measured), server.model, machine)


def _plan(namespace: argparse.Namespace) -> Plan:
    return Plan(
        crowds=namespace.crowds,
        contexts=namespace.contexts,
        prompts=namespace.prompts,
        max_step_tokens=namespace.max_num_batched_tokens,
    )
