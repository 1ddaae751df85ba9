"""A contender in another process: questions, complaints, and no processor time between turns."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.peers import worker as module
from benchmarks.peers.plan import Plan
from benchmarks.peers.process import PeerError
from benchmarks.peers.worker import WORKERS, Worker

PROGRAM = """
import os, sys
sys.path.insert(0, {workers!r})
from json_lines import answer_requests, random_ids

def load(seconds):
    print("a library greets")
    return seconds

def decode(context, batch, steps):
    return context * batch * steps / 100

def fail():
    raise ValueError("no such model")

answer_requests({{
    "load": load,
    "prefill": lambda num_tokens: num_tokens / 1000,
    "decode": decode,
    "fail": fail,
    "die": lambda: os._exit(3),
    "differ": lambda: float(random_ids(1, 8) != random_ids(1, 8)),
}})
"""


@pytest.fixture
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Worker]:
    (tmp_path / "fake_worker.py").write_text(PROGRAM.format(workers=str(WORKERS)))
    monkeypatch.setattr(module, "WORKERS", tmp_path)
    made = Worker("fake", Path(sys.executable), "fake_worker.py", {"seconds": 1.5})
    yield made
    made.close()


def await_stop(worker: Worker) -> None:
    """Until /proc shows its state as T: a signal takes a moment. pytest's patience is the limit."""
    stat = Path(f"/proc/{worker._process.process.pid}/stat")
    while stat.read_text().rpartition(")")[2].split()[0] != "T":
        time.sleep(0.001)


def test_what_a_library_prints_is_no_answer(worker: Worker) -> None:
    assert worker.load_seconds == 1.5


def test_rates_are_tokens_of_all_sequences_per_second(worker: Worker) -> None:
    plan = Plan(prompt_tokens=50, answer_tokens=5, batch_sizes=[4], context=10, steps=2)
    rates = worker.measure(plan)
    assert rates["prefill"] == pytest.approx(1000.0)
    assert rates["decode"] == pytest.approx(100.0)
    assert rates["decode batch 4"] == pytest.approx(10.0)


def test_it_is_stopped_between_turns(worker: Worker) -> None:
    await_stop(worker)
    worker.number("prefill", num_tokens=1)
    await_stop(worker)


def test_its_complaint_is_told(worker: Worker) -> None:
    with pytest.raises(PeerError, match=r"(?s)fake failed at 'fail'.*no such model"):
        worker.number("fail")
    assert worker.number("prefill", num_tokens=1000) == 1.0


def test_its_death_is_told(worker: Worker) -> None:
    with pytest.raises(PeerError, match="fake died at 'die'"):
        worker.number("die")


def test_ids_are_new_with_each_call(worker: Worker) -> None:
    assert worker.number("differ") == 1.0


def test_a_worker_that_cannot_start_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken.py").write_text("raise SystemExit('this engine is not installed')")
    monkeypatch.setattr(module, "WORKERS", tmp_path)
    with pytest.raises(PeerError, match="not installed"):
        Worker("broken", Path(sys.executable), "broken.py", {})
