"""Speed of sampling alone: microseconds per call, and the share of the memory limit.

    python -m benchmarks.kernels.sampler --vocabularies 49152 262144 --rows 1 32

The limit is reading the logits once, at the rate at which these threads read a set of that size.
"peaked" logits leave a handful of probable tokens, as a model's mostly do; "flat" ones thousands.
"""

from __future__ import annotations

import argparse
import struct
import time
from dataclasses import dataclass

import numpy as np

from octavo.kernels import _native

ROW = struct.Struct(_native.SAMPLE_ROW_FORMAT)
SHAPES = {"peaked": 4.0, "flat": 1.0}
"""Standard deviation of the logits."""


@dataclass(frozen=True)
class Wishes:
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    num_top: int = -1
    is_masked: bool = False

    def row(self, index: int) -> bytes:
        seed, position = index, 1000 + index
        mask = 0 if self.is_masked else -1
        head = (seed, position, self.top_p, self.min_p, self.temperature, 1.0, 0.0, 0.0)
        return ROW.pack(*head, index, -1, self.top_k, self.num_top, 0, 0, 0, 0, 0, mask)


CASES = {
    "greedy": Wishes(temperature=0.0),
    "greedy, logprobs": Wishes(temperature=0.0, num_top=5),
    "temperature": Wishes(temperature=0.8),
    "top_k 50": Wishes(top_k=50),
    "top_p 0.9": Wishes(top_p=0.9),
    "top_k 50, top_p 0.9": Wishes(top_k=50, top_p=0.9),
    "min_p 0.05": Wishes(min_p=0.05),
    "masked": Wishes(is_masked=True),
}
NO_IDS, NO_VALUES = np.empty(0, np.int32), np.empty(0, np.float32)


def seconds_of(
    sampler: _native.Sampler, logits: _native.F32, wishes: Wishes, budget_seconds: float
) -> float:
    """The best of the calls that fit into the budget, at least three."""
    rows = b"".join(wishes.row(index) for index in range(len(logits)))
    num_words = -(-logits.shape[1] // 32)
    masks = np.random.default_rng(1).integers(0, 2**32, (1, num_words), np.uint32)
    best, end, num_runs = float("inf"), time.perf_counter() + budget_seconds, 0
    while num_runs < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        sampler.sample(logits, rows, NO_IDS, NO_IDS, NO_VALUES, masks)
        best = min(best, time.perf_counter() - start)
        num_runs += 1
    return best


def parse_arguments() -> argparse.Namespace:
    levels = _native.isa_levels()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--vocabularies", nargs="+", type=int, default=[49152, 262144])
    parser.add_argument("--rows", nargs="+", type=int, default=[1, 32])
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--level", default=levels[0], choices=levels)
    parser.add_argument("--budget", type=float, default=0.03, help="seconds per figure")
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    print(f"{'vocabulary':>10} {'rows':>4} {'threads':>7} {'logits':<7} {'case':<20} us (share)")
    for vocab_size in arguments.vocabularies:
        for num_rows in arguments.rows:
            normal = np.random.default_rng(0).standard_normal((num_rows, vocab_size))
            for threads in arguments.threads:
                pool = _native.ThreadPool(threads)
                sampler = _native.Sampler(pool, arguments.level, vocab_size)
                num_bytes = 4 * num_rows * vocab_size
                rate = _native.measure_read_rate(pool, arguments.level, num_bytes, 20)
                for shape, deviation in SHAPES.items():
                    logits = (normal * deviation).astype(np.float32)
                    for name, wishes in CASES.items():
                        seconds = seconds_of(sampler, logits, wishes, arguments.budget)
                        share = num_bytes / rate / seconds
                        where = f"{vocab_size:>10} {num_rows:>4} {threads:>7} {shape:<7} {name:<20}"
                        print(f"{where} {1e6 * seconds:8.0f} ({share:.0%})", flush=True)


if __name__ == "__main__":
    main()
