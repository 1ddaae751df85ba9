"""Products of float weights beside the libraries': the `linear` kernel, torch and numpy.

    python -m benchmarks.kernels.library [--bursts 15] [--shapes 1536x576] [--rows 512]

Torch multiplies float32 with MKL and bfloat16 with oneDNN, numpy float32 with OpenBLAS. One after
the other each makes a few runs, the first of them untimed, and rests: the threads of a library spin
for a while after a product, and took half of whoever came next. octavo reads activations of float32
in all cases and its time includes their packing; what a library rounds or transposes beforehand is
not counted. Ratios are medians over the bursts, of the best library's time in the same burst.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
import timeit
from collections.abc import Callable
from dataclasses import dataclass

from octavo.kernels import _native

REST_SECONDS = 0.2
RUNS = 3


@dataclass(frozen=True)
class Shape:
    outputs: int
    inputs: int
    rows: int

    def tera_operations(self) -> float:
        return 2e-12 * self.rows * self.outputs * self.inputs


Product = Callable[[], object]


def library_products(shape: Shape, threads: int) -> dict[str, Product]:
    import numpy as np
    import torch

    torch.set_num_threads(threads)
    x, w = torch.randn(shape.rows, shape.inputs), torch.randn(shape.outputs, shape.inputs)
    y = torch.empty(shape.rows, shape.outputs)
    x16, w16, y16 = x.bfloat16(), w.bfloat16(), y.bfloat16()
    return {
        "torch float32": lambda: torch.mm(x, w.t(), out=y),
        "torch bfloat16": lambda: torch.mm(x16, w16.t(), out=y16),
        "numpy float32": lambda: np.matmul(x.numpy(), w.numpy().T, out=y.numpy()),
    }


def octavo_products(shape: Shape, level: str, threads: int) -> dict[str, Product]:
    from benchmarks.kernels.linear import FLOAT_FORMATS, Bench, Case, random_matrix

    pool = _native.ThreadPool(threads)
    cases = [Case(level, name, shape.outputs, shape.inputs, threads) for name in FLOAT_FORMATS]
    benches = {
        f"octavo {case.format}": Bench(case, pool, [random_matrix(case, pool, 0)], shape.rows)
        for case in cases
    }
    return {name: bench.run for name, bench in benches.items()}


def burst(product: Product) -> float:
    """Seconds of the median run."""
    time.sleep(REST_SECONDS)
    product()
    return statistics.median(timeit.repeat(product, number=1, repeat=RUNS))


def compare(shape: Shape, level: str, threads: int, bursts: int) -> str:
    libraries = library_products(shape, threads)
    own = octavo_products(shape, level, threads)
    taken = [{name: burst(p) for name, p in (libraries | own).items()} for _ in range(bursts)]
    median = {name: statistics.median(t[name] for t in taken) for name in taken[0]}
    best = min(libraries, key=median.__getitem__)
    cells = [f"{name} {shape.tera_operations() / median[name]:.3f} T/s" for name in libraries]
    for name in own:
        ratio = statistics.median(t[best] / t[name] for t in taken)
        cells.append(f"{name} {shape.tera_operations() / median[name]:.3f} T/s = {ratio:.2f} x")
    return f"{shape.outputs}x{shape.inputs}, {shape.rows} rows: {', '.join(cells)} {best}"


def main() -> None:
    levels = _native.isa_levels()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    shapes = ["1536x576", "576x1536", "4864x896", "896x4864"]
    parser.add_argument("--shapes", nargs="+", default=shapes, metavar="NxK")
    parser.add_argument("--rows", nargs="+", type=int, default=[32, 512])
    parser.add_argument("--bursts", type=int, default=15)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--level", default=levels[0], choices=levels)
    options = parser.parse_args()
    # Read when numpy and torch are loaded, which happens in compare.
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = str(options.threads)
    for text in options.shapes:
        outputs, inputs = (int(part) for part in text.split("x"))
        for rows in options.rows:
            shape = Shape(outputs, inputs, rows)
            print(compare(shape, options.level, options.threads, options.bursts), flush=True)


if __name__ == "__main__":
    main()
