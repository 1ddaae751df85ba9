"""OpenVINO GenAI's worker, on its continuous-batching pipeline, stepped from here.

The stateful pipeline (ATTENTION_BACKEND=SDPA) decodes at the same rate and is slower in prefill:
SmolLM2 Q4_1, 2 threads of Zen 4, 1270 against 1610 tokens/s.
"""

from __future__ import annotations

import time
from itertools import islice

import numpy as np
import openvino as ov
import openvino_genai as genai
from json_lines import answer_requests, random_ids

CACHE_GIGABYTES = 2
MOST_TOKENS = 1 << 20


def config_of(max_tokens: int) -> genai.GenerationConfig:
    config = genai.GenerationConfig(max_new_tokens=max_tokens, ignore_eos=True, do_sample=False)
    config.apply_chat_template = False
    return config


class OpenVinoWorker:
    def load(
        self, model: str, max_step_tokens: int, prefix_caching: bool, properties: dict[str, object]
    ) -> float:
        scheduler = genai.SchedulerConfig()
        scheduler.cache_size = CACHE_GIGABYTES
        scheduler.max_num_batched_tokens = max_step_tokens
        scheduler.max_num_seqs = 64
        scheduler.enable_prefix_caching = prefix_caching
        scheduler.dynamic_split_fuse = True
        start = time.perf_counter()
        self._pipeline = genai.ContinuousBatchingPipeline(model, scheduler, "CPU", properties)
        seconds = time.perf_counter() - start
        self._num_requests = 0
        for _ in range(2):  # shapes are compiled at first sight
            self.prefill(512)
            self.decode(16, 8, 2)
        return seconds

    def prefill(self, num_tokens: int) -> float:
        handle = self._add_ids(random_ids(1, num_tokens)[0], max_tokens=1)
        start = time.perf_counter()
        while not handle.can_read():
            self._pipeline.step()
        seconds = time.perf_counter() - start
        self._drain([handle])
        return seconds

    def decode(self, context: int, batch: int, steps: int) -> float:
        """Of `steps` steps in which each of `batch` sequences gets a token."""
        handles = [self._add_ids(ids, MOST_TOKENS) for ids in random_ids(batch, context)]
        while not all(handle.can_read() for handle in handles):
            self._pipeline.step()
        start = time.perf_counter()
        for _ in range(steps):
            self._pipeline.step()
        seconds = time.perf_counter() - start
        self._drain(handles)
        return seconds

    def serve(self, prompts: list[str], max_tokens: int, clients: int) -> float:
        """A closed loop: as soon as a request ends, the next one is given."""
        waiting = iter(prompts)
        config = config_of(max_tokens)
        start = time.perf_counter()
        open_handles = [self._add_text(prompt, config) for prompt in islice(waiting, clients)]
        while self._pipeline.has_non_finished_requests():
            self._pipeline.step()
            still_open = [handle for handle in open_handles if _is_running(handle)]
            room = clients - len(still_open)
            fresh = [self._add_text(prompt, config) for prompt in islice(waiting, room)]
            open_handles = still_open + fresh
        seconds = time.perf_counter() - start
        if next(waiting, None) is not None:
            raise RuntimeError("the pipeline ran dry before all prompts were given")
        return seconds

    def _add_ids(self, ids: list[int], max_tokens: int) -> genai.GenerationHandle:
        self._num_requests += 1
        tensor = ov.Tensor(np.array([ids], dtype=np.int64))
        return self._pipeline.add_request(self._num_requests, tensor, config_of(max_tokens))

    def _add_text(self, prompt: str, config: genai.GenerationConfig) -> genai.GenerationHandle:
        self._num_requests += 1
        return self._pipeline.add_request(self._num_requests, prompt, config)

    def _drain(self, handles: list[genai.GenerationHandle]) -> None:
        for handle in handles:
            handle.cancel()
        while self._pipeline.has_non_finished_requests():
            self._pipeline.step()


def _is_running(handle: genai.GenerationHandle) -> bool:
    return bool(handle.get_status() == genai.GenerationStatus.RUNNING)


if __name__ == "__main__":
    worker = OpenVinoWorker()
    answer_requests(
        {
            "load": worker.load,
            "prefill": worker.prefill,
            "decode": worker.decode,
            "serve": worker.serve,
        }
    )
