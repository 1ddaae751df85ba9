"""OpenVINO GenAI as a contender, in its own Python and without HTTP.

It reads GGUF files of Q4_0, Q4_1 and Q8_0, not of Q4_K_M: requantise those with
`llama-quantize --allow-requantize --pure IN.gguf OUT.gguf Q4_0`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.peers.worker import Worker
from octavo.bench.workload import LoadRequest

SERVING_STEP_TOKENS = 512


def openvino_worker(
    python: Path, model: Path, threads: int, max_step_tokens: int, *, prefix_caching: bool
) -> Worker:
    # float16 keys and values are a little faster than the default, u8.
    properties = {"INFERENCE_NUM_THREADS": threads, "KV_CACHE_PRECISION": "f16"}
    load = {
        "model": str(model),
        "max_step_tokens": max_step_tokens,
        "prefix_caching": prefix_caching,
        "properties": properties,
    }
    return Worker("openvino", python, "openvino_worker.py", load)


class OpenVinoServing:
    """The continuous-batching pipeline in a closed loop."""

    name = "openvino"

    def __init__(self, python: Path, model: Path, threads: int) -> None:
        self._worker = openvino_worker(
            python, model, threads, SERVING_STEP_TOKENS, prefix_caching=True
        )
        self.load_seconds = self._worker.load_seconds

    def serve(self, requests: Sequence[LoadRequest], clients: int) -> float:
        """Output tokens per second. All answers have the length of the first."""
        prompts = [request.prompt for request in requests]
        return self._worker.serve(prompts, requests[0].max_tokens, clients)

    def close(self) -> None:
        self._worker.close()
