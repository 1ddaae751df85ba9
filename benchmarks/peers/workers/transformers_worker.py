"""transformers' worker: forward calls with a growing cache, without the cost of `generate`.

A model is a folder, or a GGUF file, whose weights transformers dequantises.
"""

from __future__ import annotations

import time
from pathlib import Path

import torch
from json_lines import answer_requests, random_ids
from transformers import AutoModelForCausalLM, DynamicCache


class TransformersWorker:
    def load(self, model: str, threads: int, dtype: str) -> float:
        torch.set_num_threads(threads)
        start = time.perf_counter()
        path = Path(model)
        options = {} if path.is_dir() else {"gguf_file": path.name}
        self._model = AutoModelForCausalLM.from_pretrained(
            path if path.is_dir() else path.parent, dtype=getattr(torch, dtype), **options
        )
        self._model.eval()
        seconds = time.perf_counter() - start
        self.prefill(512)
        self.decode(16, 8, 2)
        return seconds

    def prefill(self, num_tokens: int) -> float:
        ids = torch.tensor(random_ids(1, num_tokens))
        start = time.perf_counter()
        self._next(ids, DynamicCache(config=self._model.config))
        return time.perf_counter() - start

    def decode(self, context: int, batch: int, steps: int) -> float:
        """Of `steps` steps in which each of `batch` sequences gets a token."""
        cache = DynamicCache(config=self._model.config)
        ids = self._next(torch.tensor(random_ids(batch, context)), cache)
        start = time.perf_counter()
        for _ in range(steps):
            ids = self._next(ids, cache)
        return time.perf_counter() - start

    def surprise(self, windows: list[list[int]]) -> float:
        """Sum of -log p over all tokens of all windows but the first of each, in float64."""
        total = 0.0
        with torch.inference_mode():
            for ids in windows:
                row = torch.tensor([ids])
                logits = self._model(row, use_cache=False).logits[0, :-1].double()
                chosen = torch.log_softmax(logits, dim=-1).gather(1, row[0, 1:, None])
                total -= float(chosen.sum())
        return total

    def _next(self, ids: torch.Tensor, cache: DynamicCache) -> torch.Tensor:
        """The most probable next token of each row, [batch, 1]."""
        with torch.inference_mode():
            output = self._model(ids, past_key_values=cache, use_cache=True, logits_to_keep=1)
            return output.logits[:, -1].argmax(dim=-1, keepdim=True)


if __name__ == "__main__":
    worker = TransformersWorker()
    answer_requests(
        {
            "load": worker.load,
            "prefill": worker.prefill,
            "decode": worker.decode,
            "surprise": worker.surprise,
        }
    )
