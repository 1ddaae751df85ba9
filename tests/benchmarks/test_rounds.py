"""From rounds of contenders to medians and ratios."""

from __future__ import annotations

import argparse
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.rounds import Round, rates, ratios, rounds, save
from octavo.bench.fingerprint import fingerprint
from octavo.bench.report import Report, now, report_from_json

ROUNDS: list[Round] = [
    {("octavo", " decode"): 300.0, ("slow", " decode"): 100.0, ("fast", " decode"): 150.0},
    {("octavo", " decode"): 200.0, ("fast", " decode"): 50.0},
]


def arguments(**values: object) -> argparse.Namespace:
    return argparse.Namespace(**{"repeats": 5, "seconds": float("inf"), "json": None, **values})


def test_a_ratio_is_taken_within_each_round() -> None:
    found = {metric.name: metric.samples for metric in ratios("octavo", ROUNDS)}
    assert found == {"octavo / slow decode": [3.0], "octavo / fast decode": [2.0, 4.0]}


def test_who_sits_out_a_round_has_fewer_samples() -> None:
    found = {metric.name: len(metric.samples) for metric in rates(ROUNDS)}
    assert found == {"octavo decode": 2, "slow decode": 1, "fast decode": 2}


def test_there_is_a_round_however_short_the_time() -> None:
    assert list(rounds(arguments(seconds=-1.0))) == [0]


def test_all_rounds_are_made_in_enough_time() -> None:
    assert list(rounds(arguments(repeats=3))) == [0, 1, 2]


def test_what_is_saved_after_a_round_reads_back(tmp_path: Path) -> None:
    report = Report(
        kind="side-by-side", created=now(), machine=fingerprint(1), metrics=rates(ROUNDS)
    )
    save(report, arguments(json=tmp_path / "a.json"))
    assert report_from_json((tmp_path / "a.json").read_bytes(), "a.json") == report


@pytest.fixture(autouse=True)
def _keep_the_handler_of_termination() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)
