"""Serving side by side: output tokens per second of octavo's server and of the peers' by clients.

    python -m benchmarks.serving MODEL [--llama-bench PROGRAM] [--openvino-python P]
        [--vllm-python P] [--peer-model PEER=PATH] [--clients 1 8 32] [--prefix-len 1000]
        [--targets] [--json FILE]

octavo, llama-server and vLLM answer over HTTP; OpenVINO GenAI runs without it, in its own process.
Closed loop: as many requests are open as there are clients. All contenders get the same prompts,
new ones in each round. With `--prefix-len` there is another case: `--prefix-clients` requests whose
prompts begin alike, to a server that has not seen that beginning (cold), and as many again (warm).
Contenders take turns and are stopped between them.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.peers.llama_cpp import llama_server
from benchmarks.peers.octavo import octavo_server
from benchmarks.peers.openvino import OpenVinoServing
from benchmarks.peers.server import HttpContender, ServingContender
from benchmarks.peers.vllm_cpu import vllm_server
from benchmarks.rounds import (
    Round,
    add_rounds,
    conclude,
    peer_models,
    rates,
    ratios,
    rounds,
    save,
    start_wanted,
)
from octavo.bench.fingerprint import fingerprint
from octavo.bench.lengths import Fixed
from octavo.bench.report import Report, now
from octavo.bench.workload import LoadRequest, Workload
from octavo.config.machine import this_machine
from octavo.hub.find import find_model

OCTAVO = "octavo"
LEAST_REQUESTS = 2
"""Of one case, however few its clients."""


@dataclass(frozen=True, slots=True)
class Case:
    """`what` is the end of the metric's name."""

    what: str
    clients: int
    requests: Sequence[LoadRequest]


def main() -> None:
    arguments = parse_arguments()
    path = find_model(arguments.model)
    with ExitStack() as stack:
        contenders = start(path, arguments, stack)
        found: list[Round] = []
        stack.callback(lambda: conclude(report_of(path, arguments, contenders, found), arguments))
        for number in rounds(arguments):
            found.append({})
            for case in cases(number, arguments):
                for contender in contenders:
                    if number < arguments.most_rounds.get(contender.name, number + 1):
                        rate = contender.serve(case.requests, case.clients)
                        found[-1][contender.name, case.what] = rate
                save(report_of(path, arguments, contenders, found), arguments)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", default="smollm2")
    parser.add_argument("--clients", type=int, nargs="*", default=[1, 8, 32])
    parser.add_argument("--requests-per-client", type=int, default=1)
    parser.add_argument("--input-len", type=int, default=203, metavar="TOKENS")
    parser.add_argument("--output-len", type=int, default=128, metavar="TOKENS")
    parser.add_argument("--prefix-len", type=int, default=0, metavar="TOKENS")
    parser.add_argument("--prefix-clients", type=int, default=8)
    parser.add_argument("--threads", type=int, default=this_machine().num_cores)
    parser.add_argument("--octavo", nargs="*", default=[], metavar="FLAG=VALUE")
    parser.add_argument("--llama-bench", type=Path, metavar="PROGRAM", help="with its siblings")
    for peer in ("openvino", "vllm"):
        parser.add_argument(f"--{peer}-python", type=Path, metavar="PYTHON")
    parser.add_argument("--peer-model", action="append", default=[], metavar="PEER=PATH")
    parser.add_argument(
        "--most-rounds",
        action="append",
        default=[],
        metavar="PEER=N",
        help="a slow peer sits out the later rounds",
    )
    add_rounds(parser)
    arguments = parser.parse_args()
    arguments.most_rounds = {
        name: int(number) for name, number in (text.split("=", 1) for text in arguments.most_rounds)
    }
    return arguments


def start(path: Path, arguments: argparse.Namespace, stack: ExitStack) -> list[ServingContender]:
    """octavo first. All are closed when `stack` is."""
    threads = arguments.threads
    slots, context = room(arguments)
    model = peer_models(path, arguments)
    flags = [f"--{text}" for text in arguments.octavo]
    makers: list[tuple[object, Callable[[], ServingContender]]] = [
        (
            True,
            lambda: octavo_contender(path, threads, flags),
        ),
        (
            arguments.llama_bench,
            lambda: HttpContender(
                "llama.cpp",
                partial(
                    llama_server,
                    arguments.llama_bench,
                    model("llama.cpp"),
                    threads,
                    slots=slots,
                    context=context,
                ),
            ),
        ),
        (
            arguments.openvino_python,
            lambda: OpenVinoServing(arguments.openvino_python, model("openvino"), threads),
        ),
        (
            arguments.vllm_python,
            lambda: HttpContender(
                "vllm",
                partial(vllm_server, arguments.vllm_python, model("vllm"), threads),
            ),
        ),
    ]
    return start_wanted(makers, stack)


def room(arguments: argparse.Namespace) -> tuple[int, int]:
    """Requests at once, and tokens of one of them, at most."""
    slots = max([*arguments.clients, arguments.prefix_clients if arguments.prefix_len else 1])
    words = arguments.input_len + arguments.prefix_len
    # Some words are two tokens in some vocabularies.
    return slots, words + words // 8 + arguments.output_len


def octavo_contender(path: Path, threads: int, flags: Sequence[str]) -> HttpContender:
    """Not stopped between turns: it would take its engine's silence for a fault."""
    return HttpContender(
        OCTAVO,
        lambda port: octavo_server(path, threads, port, flags),
        is_stopped_when_idle=False,
    )


def cases(number: int, arguments: argparse.Namespace) -> Iterator[Case]:
    """Of one round; its number makes the prompts new."""
    lengths, answers = Fixed(arguments.input_len), Fixed(arguments.output_len)
    for clients in arguments.clients:
        workload = Workload(
            num_prompts=max(LEAST_REQUESTS, clients * arguments.requests_per_client),
            input_lengths=lengths,
            output_lengths=answers,
            seed=1000 * number + clients,
        )
        yield Case(f", {clients} clients", clients, workload.requests())
    if arguments.prefix_len:
        clients = arguments.prefix_clients
        workload = Workload(
            num_prompts=2 * clients,
            input_lengths=lengths,
            output_lengths=answers,
            num_prefix_tokens=arguments.prefix_len,
            seed=1000 * number,
        )
        requests = workload.requests()
        yield Case(", cold prefix", clients, requests[:clients])
        yield Case(", warm prefix", clients, requests[clients:])


def report_of(
    path: Path,
    arguments: argparse.Namespace,
    contenders: Sequence[ServingContender],
    found: Sequence[Round],
) -> Report:
    names = ("input_len", "output_len", "prefix_len", "requests_per_client")
    return Report(
        kind="serving side by side",
        created=now(),
        machine=fingerprint(arguments.threads),
        model=path.name,
        settings={
            **{name: getattr(arguments, name) for name in names},
            "octavo": " ".join(arguments.octavo),
        },
        metrics=[*rates(found), *ratios(OCTAVO, found)],
        results={f"{one.name} ready, seconds": one.load_seconds for one in contenders},
    )


if __name__ == "__main__":
    main()
