"""`octavo simulate fit`: a profile of this machine, for `octavo simulate --profile`."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

import msgspec

from octavo.bench.fingerprint import fingerprint
from octavo.bench.load import COMPLETIONS, Server, first_model
from octavo.bench.report import report_from_json
from octavo.config.engine import EngineConfig
from octavo.config.machine import this_machine
from octavo.entrypoints.cli.bench_machine import positive
from octavo.entrypoints.cli.bench_output import check_files, make_console
from octavo.entrypoints.progress import counting_bar, note
from octavo.simulate.from_report import fit_report
from octavo.simulate.measured import MeasuredTimes, Profile, fit, profile_to_json
from octavo.simulate.probe import Plan, num_pages, probe

PLAN = Plan()


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "origin",
        metavar="URL|REPORT.json",
        help="a server that is otherwise idle, or a report of `octavo bench latency`",
    )
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write the profile")
    group = parser.add_argument_group("of a server")
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
    group.add_argument(
        "--max-num-seqs", type=positive, default=EngineConfig().max_num_seqs, metavar="N"
    )
    group.add_argument(
        "--max-num-batched-tokens",
        type=positive,
        default=EngineConfig().max_num_batched_tokens,
        metavar="TOKENS",
        help="as the server was started with (defaults: as octavo's)",
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
    plan = Plan(
        crowds=namespace.crowds,
        contexts=namespace.contexts,
        prompts=namespace.prompts,
        max_step_tokens=namespace.max_num_batched_tokens,
    )
    with counting_bar("Measuring") as report:
        samples = await probe(asked, plan, report)
    machine = fingerprint(this_machine().num_cores).processor
    return msgspec.structs.replace(
        fit(samples, asked.model, machine),
        num_pages=await num_pages(asked),
        max_num_seqs=namespace.max_num_seqs,
        max_num_batched_tokens=namespace.max_num_batched_tokens,
    )
