"""Speed of the attention kernel: prompt chunks in GFLOP/s, single new tokens in GB/s of pages read.

    PYTHONPATH=src:. python benchmarks/kernels/attention.py [--levels avx2 scalar] [--dtype float32]

Of each case the fastest of several runs counts. The floating point rate of a plain prompt counts
only what causality leaves: 4 * heads * head_dim * (keys seen), summed over the rows.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass

from octavo.core.model_config import KV_ELEMENT_BYTES, KV_SCALE_BYTES
from octavo.kernels import _native
from tests.kernels.harness import OneKernel, pages
from tests.kernels.paged import DTYPES, Chunk, Contexts, Shape

SHAPES = {"SmolLM2-135M": (9, 3, 64), "Qwen2.5-1.5B": (12, 2, 128), "gemma-3-270m": (4, 1, 256)}
PREFILL_TOKENS = [512, 2048]
DECODE_CONTEXTS = [512, 2048, 8192]


@dataclass(frozen=True)
class Case:
    shape: Shape
    context: int
    num_tokens: int

    @property
    def gflop(self) -> float:
        first = self.context - self.num_tokens
        keys = sum(range(first + 1, self.context + 1))
        return 4e-9 * self.shape.num_heads * self.shape.head_dim * keys

    @property
    def gigabytes(self) -> float:
        element_bytes = KV_ELEMENT_BYTES[self.shape.dtype]
        scale_bytes = KV_SCALE_BYTES.get(self.shape.dtype, 0)
        vector_bytes = self.shape.head_dim * element_bytes + scale_bytes
        return 2e-9 * self.shape.num_kv_heads * vector_bytes * self.context


def seconds(contexts: Contexts, case: Case, level: str, num_threads: int, budget: float) -> float:
    """The fastest run of those that fit into `budget` seconds, and at least three."""
    shape = case.shape
    chunk = Chunk(0, case.context - case.num_tokens, case.num_tokens)
    step = contexts.step([chunk])
    kernel = OneKernel(level, num_threads)
    q = kernel.value(contexts.queries[0][chunk.start :].reshape(case.num_tokens, -1))
    out = kernel.output(shape.num_heads * shape.head_dim)
    ints = [shape.num_heads, shape.num_kv_heads, shape.head_dim, 0]
    operands = [q, pages(contexts.cache)]
    program = kernel.bind("attention", operands, [out], ints, [shape.scale, 0.0], step=step)
    native = step.native()
    times: list[float] = []
    end = time.perf_counter() + budget
    while len(times) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        program.run(native, step.num_tokens, step.num_sequences, step.num_logit_rows)
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--levels", nargs="+", default=_native.isa_levels())
    parser.add_argument("--dtype", choices=DTYPES, default="float16")
    parser.add_argument("--budget", type=float, default=0.2, help="seconds per case")
    options = parser.parse_args()
    print("model                    case level        threads        us  GFLOP/s   GB/s")
    for name, (heads, kv_heads, head_dim) in SHAPES.items():
        shape = Shape(heads, kv_heads, head_dim, dtype=options.dtype)
        contexts = {n: Contexts(shape, [n]) for n in {*PREFILL_TOKENS, *DECODE_CONTEXTS}}
        cases = [Case(shape, n, n) for n in PREFILL_TOKENS]
        cases += [Case(shape, n, 1) for n in DECODE_CONTEXTS]
        for case in cases:
            kind = "decode" if case.num_tokens == 1 else "prefill"
            for level in options.levels:
                for num_threads in (1, 2):
                    held = contexts[case.context]
                    t = seconds(held, case, level, num_threads, options.budget)
                    print(
                        f"{name:14} {kind:>7} {case.context:6} {level:12} {num_threads:7} "
                        f"{1e6 * t:9.1f} {case.gflop / t:8.1f} {case.gigabytes / t:6.2f}"
                    )


if __name__ == "__main__":
    main()
