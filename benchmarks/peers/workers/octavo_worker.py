"""octavo's worker: single steps on a runner, as `octavo bench latency` takes them."""

from __future__ import annotations

import time

from json_lines import answer_requests

from octavo.bench.latency import Case, CaseTimes, LatencyBench
from octavo.config.engine import EngineConfig
from octavo.entrypoints.local import LocalEngine


class OctavoWorker:
    def load(self, options: dict[str, object], warmups: list[tuple[int, int]]) -> float:
        """Seconds. Each warm-up is a context and a batch size, decoded for two steps."""
        config = EngineConfig(**options)  # type: ignore[arg-type]  # checked by the class
        start = time.perf_counter()
        engine = LocalEngine(config)
        seconds = time.perf_counter() - start
        self._bench = LatencyBench(
            engine.runner, engine.front.model.vocab_size, config.max_num_batched_tokens
        )
        for context, batch in warmups:
            self._measure(context, batch, 2)
        return seconds

    def prefill(self, num_tokens: int) -> float:
        return self._measure(num_tokens, 1, 1).prefill_seconds[0]

    def decode(self, context: int, batch: int, steps: int) -> float:
        return sum(self._measure(context, batch, steps).decode_seconds)

    def _measure(self, context: int, batch: int, steps: int) -> CaseTimes:
        return self._bench.measure(Case(context, batch), steps, repeats=1, warmups=0)


if __name__ == "__main__":
    worker = OctavoWorker()
    answer_requests({"load": worker.load, "prefill": worker.prefill, "decode": worker.decode})
