"""octavo as a contender: a worker in this Python, or a server of its own."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.peers.plan import Plan
from benchmarks.peers.process import python_environment
from benchmarks.peers.worker import Worker

ROOT = Path(__file__).parents[2]


def octavo_worker(
    model: Path, threads: int, plan: Plan, options: Mapping[str, object], name: str = "octavo"
) -> Worker:
    """`options` are fields of EngineConfig."""
    batches = sorted({1, *plan.batch_sizes})
    engine = {
        "model": str(model),
        "threads": threads,
        "max_num_batched_tokens": max(512, plan.prompt_tokens),
        "max_num_seqs": batches[-1],
        **options,
    }
    # The first run touches memory for the first time.
    warmups = [(plan.prompt_tokens, 1), *((plan.context, batch) for batch in batches)]
    load = {"options": engine, "warmups": warmups}
    python = Path(sys.executable)
    return Worker(name, python, "octavo_worker.py", load, python_environment(ROOT))


def octavo_server(
    model: Path, threads: int, port: int, options: Sequence[str]
) -> tuple[list[str], Mapping[str, str]]:
    """Command and environment of a server; `options` are flags of `octavo serve`."""
    command = [sys.executable, "-m", "octavo", "serve", str(model), "--host", "127.0.0.1"]
    return (
        [*command, "--port", str(port), "--threads", str(threads), *options],
        python_environment(ROOT),
    )
