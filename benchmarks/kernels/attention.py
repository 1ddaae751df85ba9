"""Speed of the attention kernel, and its share of what the machine allows.

    PYTHONPATH=src:. python benchmarks/kernels/attention.py [--levels avx2 scalar] [--dtypes int16]

Prompts of one layer whose pages stay in the cache, and decodes over as many layers, one
instruction each, as leave the caches with their pages (as in a model, where the weights pass by in
between). Of each case the fastest of several runs counts, divided by the layers.

GFLOP/s count only what causality and the window leave: 4 * heads * head_dim * (keys seen), summed
over the rows; GB/s, the keys and values seen by any of the rows of a sequence, once. The share is
of the time that the greater of both takes at the machine's rates, measured first: float32
multiply-adds for pages of floats, twice that (two int16 products an instruction) for integers.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass

import numpy as np

from benchmarks.kernels.ceilings import measured
from octavo.bench.machine import MachineRates
from octavo.core.model_config import KV_ELEMENT_BYTES, KV_SCALE_BYTES
from octavo.kernels import OperandKind, _native
from tests.kernels.harness import PAGE_TOKENS, StepArrays, round_up, thread_pool
from tests.kernels.paged import Shape

SHAPES = {
    "SmolLM2-135M": (9, 3, 64),
    "Qwen2.5-0.5B": (14, 2, 64),
    "Qwen2.5-1.5B": (12, 2, 128),
    "gemma-3-270m": (4, 1, 256),
}
WINDOW = 512
"""Of gemma's sliding layers."""
COLD_BYTES = 160 << 20
MAX_LAYERS = 256


@dataclass(frozen=True)
class Case:
    """`batch` sequences of `context` tokens, whose last `num_tokens` are computed."""

    name: str
    context: int
    num_tokens: int
    batch: int = 1
    window: int = 0

    def keys(self) -> int:
        positions = range(self.context - self.num_tokens, self.context)
        seen = (min(p + 1, self.window or p + 1) for p in positions)
        return self.batch * sum(seen)

    def gflop(self, shape: Shape) -> float:
        return 4e-9 * shape.num_heads * shape.head_dim * self.keys()

    def num_bytes(self, shape: Shape) -> int:
        """Of keys and values that some row sees."""
        first = self.context - self.num_tokens
        tokens = self.context - (max(0, first - self.window + 1) if self.window else 0)
        scale_bytes = KV_SCALE_BYTES.get(shape.dtype, 0)
        vector_bytes = shape.head_dim * KV_ELEMENT_BYTES[shape.dtype] + scale_bytes
        return 2 * shape.num_kv_heads * vector_bytes * tokens * self.batch


CASES = [
    Case("prefill", 512, 512),
    Case("prefill", 2048, 2048),
    Case("decode", 128, 1),
    Case("decode", 512, 1),
    Case("decode", 2048, 1),
    Case("decode", 8192, 1),
    Case("decode", 128, 1, batch=32),
    Case("decode", 270, 1, batch=8),
    Case("decode", 270, 1, batch=32),
    Case("decode", 512, 1, batch=32),
]
WINDOW_CASES = [Case("window", 2048, 2048, window=WINDOW), Case("window", 8192, 1, window=WINDOW)]


class Layers:
    """A case's sequences in the pages of some layers, and the step that computes them."""

    def __init__(self, shape: Shape, case: Case) -> None:
        prompt = case.num_tokens > 1
        layers = 1 if prompt else -(-COLD_BYTES // case.num_bytes(shape))
        self.shape, self.case, self.num_layers = shape, case, min(layers, MAX_LAYERS)
        per_sequence = round_up(case.context, PAGE_TOKENS) // PAGE_TOKENS
        num_pages = case.batch * per_sequence
        sizes = (shape.num_kv_heads, shape.head_dim)
        self.cache = _native.KvCache(num_pages, [sizes] * self.num_layers, shape.dtype)
        order = np.random.default_rng(1).permutation(num_pages).astype(np.int32)
        self.tables = order.reshape(case.batch, per_sequence)
        self._fill(num_pages)

    def _fill(self, num_pages: int) -> None:
        rows, width = num_pages * PAGE_TOKENS, self.shape.num_kv_heads * self.shape.head_dim
        value = _arena(width, 0)
        write: list[_native.InstructionSpec] = [
            ("write_pages", 0, [value, value, _pages(self.cache, layer), _NONE], [], [0, 0], [])
            for layer in range(self.num_layers)
        ]
        program = _native.Program(thread_pool(1), LEVELS[0], write, (4 * width, 0, 0), (rows, 1, 1))
        noise = np.random.default_rng(2).standard_normal((rows, width), np.float32)
        program.view(value, rows)[:] = noise
        program.run(StepArrays(rows, slots=np.arange(rows)).native(), rows, 1, 1)

    def seconds(self, level: str, num_threads: int, budget: float) -> float:
        """Of one layer: the fastest run of those that fit into `budget` seconds, at least three."""
        case, shape = self.case, self.shape
        rows, width = case.batch * case.num_tokens, shape.num_heads * shape.head_dim
        q, out = _arena(width, 0), _arena(width, 4 * width)
        ints = [shape.num_heads, shape.num_kv_heads, shape.head_dim, case.window]
        attend: list[_native.InstructionSpec] = [
            ("attention", 0, [q, _pages(self.cache, layer)], [out], ints, [shape.scale, 0.0])
            for layer in range(self.num_layers)
        ]
        sizes = (rows, case.batch, 1)
        program = _native.Program(thread_pool(num_threads), level, attend, (8 * width, 0, 0), sizes)
        noise = np.random.default_rng(3).standard_normal((rows, width), np.float32)
        program.view(q, rows)[:] = noise
        positions = np.arange(case.context - case.num_tokens, case.context, dtype=np.int32)
        step = StepArrays(
            rows,
            num_sequences=case.batch,
            positions=np.tile(positions, case.batch),
            query_starts=np.arange(case.batch + 1, dtype=np.int32) * case.num_tokens,
            page_tables=self.tables,
        ).native()
        times: list[float] = []
        end = time.perf_counter() + budget
        while len(times) < 3 or time.perf_counter() < end:
            start = time.perf_counter()
            program.run(step, *sizes)
            times.append(time.perf_counter() - start)
        return min(times) / self.num_layers


LEVELS = _native.isa_levels()


def _arena(width: int, offset: int) -> _native.OperandSpec:
    return (OperandKind.ARENA, 0, 0, width, offset, 0, 4 * width, None)


_NONE: _native.OperandSpec = (OperandKind.NONE, 0, 0, 0, 0, 0, 0, None)


def _pages(cache: _native.KvCache, layer: int) -> _native.OperandSpec:
    return (OperandKind.KV, 0, 0, 0, 0, 0, 0, (cache, layer))


def _limit_seconds(rates: MachineRates, shape: Shape, case: Case) -> float:
    integers = shape.dtype in KV_SCALE_BYTES
    flop_rate = rates.f32_operations_per_second * (2 if integers else 1)
    arithmetic = 1e9 * case.gflop(shape) / flop_rate
    return max(arithmetic, case.num_bytes(shape) / rates.bytes_per_second)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--levels", nargs="+", choices=LEVELS, default=LEVELS[:1])
    parser.add_argument("--dtypes", nargs="+", choices=KV_ELEMENT_BYTES, default=KV_ELEMENT_BYTES)
    parser.add_argument("--models", nargs="+", choices=SHAPES, default=SHAPES)
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--budget", type=float, default=0.1, help="seconds per case")
    parser.add_argument("--no-prompts", action="store_true")
    options = parser.parse_args()
    rates = measured(options.levels, options.threads)
    print(
        "model          case    context x batch dtype    level       threads       us GFLOP/s "
        " GB/s  share"
    )
    for name in options.models:
        for dtype in options.dtypes:
            shape = Shape(*SHAPES[name], dtype=dtype)
            for case in CASES + (WINDOW_CASES if name.startswith("gemma") else []):
                if options.no_prompts and case.num_tokens > 1:
                    continue
                layers = Layers(shape, case)
                for (level, threads), rate in rates.items():
                    t = layers.seconds(level, threads, options.budget)
                    share = _limit_seconds(rate, shape, case) / t
                    print(
                        f"{name:14} {case.name:7} {case.context:7} x {case.batch:<5} {dtype:8} "
                        f"{level:11} {threads:7} {1e6 * t:8.1f} {case.gflop(shape) / t:7.1f} "
                        f"{1e-9 * case.num_bytes(shape) / t:5.1f} {share:6.0%}",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
