"""Contenders in turns: when to stop, and from the rounds' figures to a report's metrics."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol, TypeVar

from benchmarks.targets import lines, verdicts
from octavo.bench.report import Metric, Report, report_to_json
from octavo.entrypoints.cli.bench_output import show

Round = dict[tuple[str, str], float]
"""Rates by contender and by what was measured, such as ("octavo", ", 8 clients"); the two joined
are the metric's name. A contender may be missing from some rounds."""


class Closable(Protocol):
    def close(self) -> None: ...


AnyContender = TypeVar("AnyContender", bound=Closable)


def start_wanted(
    makers: Sequence[tuple[object, Callable[[], AnyContender]]], stack: ExitStack
) -> list[AnyContender]:
    """The contenders whose condition is true, in order. All are closed when `stack` is."""
    contenders = []
    for wanted, make in makers:
        if wanted:
            contenders.append(make())
            stack.callback(contenders[-1].close)
    return contenders


def peer_models(path: Path, arguments: argparse.Namespace) -> Callable[[str], Path]:
    """What each peer loads: what `--peer-model` names for it, or octavo's file."""
    named = dict(text.split("=", 1) for text in arguments.peer_model)
    return lambda peer: Path(named.get(peer, path))


def add_rounds(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--repeats", type=int, default=5, metavar="ROUNDS")
    parser.add_argument(
        "--seconds", type=float, default=float("inf"), help="begin no round later than this"
    )
    parser.add_argument("--targets", action="store_true", help="judge by benchmarks/targets.json")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write figures and machine there")


def rounds(arguments: argparse.Namespace) -> Iterator[int]:
    """Numbers of the rounds: at least one. A terminated driver still ends its contenders."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    end = time.monotonic() + arguments.seconds
    for number in range(arguments.repeats):
        if number and time.monotonic() > end:
            return
        yield number


def rates(found: Sequence[Round]) -> list[Metric]:
    names = list(dict.fromkeys(key for one in found for key in one))
    return [
        Metric(
            name="".join(key),
            unit="tokens/s",
            better="higher",
            samples=[one[key] for one in found if key in one],
        )
        for key in names
    ]


def ratios(first: str, found: Sequence[Round]) -> list[Metric]:
    """The first contender over each other one, round by round, where both took part."""
    keys = list(dict.fromkeys(key for one in found for key in one if key[0] != first))
    pairs = {
        (peer, what): [
            (one[first, what], one[peer, what])
            for one in found
            if (first, what) in one and (peer, what) in one
        ]
        for peer, what in keys
    }
    return [
        Metric(
            name=f"{first} / {peer}{what}",
            unit="times",
            better="higher",
            samples=[a / b for a, b in samples],
        )
        for (peer, what), samples in pairs.items()
        if samples
    ]


def save(report: Report, arguments: argparse.Namespace) -> None:
    """After each round: an interrupted run keeps what it has."""
    if arguments.json:
        arguments.json.write_bytes(report_to_json(report))


def conclude(report: Report, arguments: argparse.Namespace) -> None:
    """What the rounds so far have found, even if the run was cut short."""
    show(report)
    if arguments.targets:
        print(*lines(verdicts(report)), sep="\n")
