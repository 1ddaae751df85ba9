"""transformers as a contender, on a folder of safetensors, in a Python that has it and torch."""

from __future__ import annotations

from pathlib import Path

from benchmarks.peers.worker import Worker


def transformers_worker(python: Path, model: Path, threads: int, dtype: str = "bfloat16") -> Worker:
    load = {"model": str(model), "threads": threads, "dtype": dtype}
    return Worker("transformers", python, "transformers_worker.py", load)
