"""Speed of the kernels that pass over rows, and their share of the memory limit.

    PYTHONPATH=src:. python benchmarks/kernels/row_passes.py [--levels avx2] [--rows 1 512]

Bytes are those that a kernel must read and write; the rate that they are compared with is that of
reading from the caches when the kernel's rows fit there, else that of memory, measured first. So
many instructions run one after the other that the time of one also holds its barrier, which is
most of it for a single row. Of each case the fastest of several runs counts.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks.kernels.ceilings import measured, read_rate
from octavo.kernels import RowKind, _native
from tests.kernels.harness import F32, NONE, OneKernel, StepArrays, pages, vector
from tests.kernels.matrices import matrix, pack, random_tensor

LEVELS = _native.isa_levels()
REPEATS = 50
# Widths of Qwen2.5-0.5B: residual rows, gated rows, heads.
WIDTH, MLP, HEADS, KV_HEADS, DIM, VOCABULARY = 896, 4864, 14, 2, 64, 4096
QKV = (HEADS + 2 * KV_HEADS) * DIM

Specs = list["_native.OperandSpec"]


@dataclass(frozen=True)
class Call:
    """One instruction, and the bytes per row that it must read and write."""

    inputs: Specs
    outputs: Specs
    row_bytes: int
    ints: tuple[int, ...] = ()
    floats: tuple[float, ...] = ()
    rows: RowKind = RowKind.TOKENS


Case = Callable[[OneKernel, int], Call]
"""Makes a call for a number of rows."""


def f32(rows: int, width: int) -> F32:
    return np.random.default_rng(width).standard_normal((rows, width), np.float32)


def weight(width: int) -> _native.OperandSpec:
    return vector(np.ones(width, np.float32))


def cache(rows: int, dtype: str) -> _native.OperandSpec:
    return pages(_native.KvCache(rows // 16 + 1, [(KV_HEADS, DIM)], dtype))


def rope_write_pages(kernel: OneKernel, rows: int, dtype: str, size: int) -> Call:
    qkv = kernel.value(f32(rows, QKV))
    inputs = [qkv, kernel.value(f32(rows, DIM)), cache(rows, dtype), NONE, NONE, NONE]
    row_bytes = 4 * (QKV + HEADS * DIM + DIM) + 2 * KV_HEADS * DIM * size
    return Call(inputs, [qkv], row_bytes, (HEADS, KV_HEADS, DIM, 0), (0.0,))


def head_rms_norm(kernel: OneKernel, rows: int) -> Call:
    x = kernel.value(f32(rows, HEADS * DIM))
    return Call([x, weight(DIM)], [x], 8 * HEADS * DIM, (HEADS, DIM), (1e-6,))


def rope(kernel: OneKernel, rows: int) -> Call:
    x = kernel.value(f32(rows, HEADS * DIM))
    angles = kernel.value(f32(rows, DIM))
    return Call([x, angles], [x], 8 * HEADS * DIM + 4 * DIM, (HEADS, DIM))


def one_to_one(width: int, num_inputs: int, floats: tuple[float, ...] = ()) -> Case:
    def case(kernel: OneKernel, rows: int) -> Call:
        inputs = [kernel.value(f32(rows, width)) for _ in range(num_inputs)]
        ints = (0,) if width == MLP else ()
        row_bytes = 4 * width * (num_inputs + 1)
        return Call(inputs, [kernel.output(width)], row_bytes, ints, floats)

    return case


def rms_norm(kernel: OneKernel, rows: int) -> Call:
    inputs = [kernel.value(f32(rows, WIDTH)), weight(WIDTH)]
    return Call(inputs, [kernel.output(WIDTH)], 8 * WIDTH, (), (1e-6,))


def rms_norm_add(kernel: OneKernel, rows: int) -> Call:
    inputs = [kernel.value(f32(rows, WIDTH)), weight(WIDTH)]
    return Call(inputs, [kernel.value(f32(rows, WIDTH))], 12 * WIDTH, (), (1e-6,))


def rms_norm_quantize(kernel: OneKernel, rows: int) -> Call:
    inputs = [kernel.value(f32(rows, WIDTH)), weight(WIDTH)]
    return Call(inputs, [kernel.q8(WIDTH)], 4 * WIDTH + WIDTH * 44 // 32, (), (1e-6,))


def quantize(kernel: OneKernel, rows: int) -> Call:
    return Call([kernel.value(f32(rows, MLP))], [kernel.q8(MLP)], 4 * MLP + MLP * 44 // 32)


def softcap(kernel: OneKernel, rows: int) -> Call:
    x = kernel.value(f32(rows, MLP))
    return Call([x], [x], 8 * MLP, (), (30.0,))


def embed(kernel: OneKernel, _: int) -> Call:
    data = random_tensor(np.random.default_rng(4), "Q8_0", VOCABULARY, WIDTH)
    table = matrix(pack("Q8_0", data, VOCABULARY, WIDTH))
    return Call([table], [kernel.output(WIDTH)], 4 * WIDTH + WIDTH * 34 // 32, (), (1.0,))


def rope_angles(kernel: OneKernel, _: int) -> Call:
    return Call([weight(DIM // 2)], [kernel.output(DIM)], 4 * DIM, (), (1.0,))


def gather_rows(kernel: OneKernel, rows: int) -> Call:
    inputs = [kernel.value(f32(rows, WIDTH))]
    return Call(inputs, [kernel.output(WIDTH, RowKind.LOGITS)], 8 * WIDTH, rows=RowKind.LOGITS)


CASES: dict[str, Case] = {
    "embed": embed,
    "rope_angles": rope_angles,
    "rms_norm": rms_norm,
    "rms_norm_add": rms_norm_add,
    "rms_norm_quantize": rms_norm_quantize,
    "head_rms_norm": head_rms_norm,
    "rope": rope,
    "rope_write_pages float16": lambda k, n: rope_write_pages(k, n, "float16", 2),
    "rope_write_pages int16": lambda k, n: rope_write_pages(k, n, "int16", 2),
    "rope_write_pages int8": lambda k, n: rope_write_pages(k, n, "int8", 1),
    "quantize": quantize,
    "add": one_to_one(WIDTH, 2),
    "gated_activation": one_to_one(MLP, 2),
    "softcap": softcap,
    "gather_rows": gather_rows,
}


def seconds(name: str, rows: int, level: str, num_threads: int, budget: float) -> tuple[float, int]:
    """Of one instruction, and the bytes that it moves."""
    kernel = OneKernel(level, num_threads)
    call = CASES[name](kernel, rows)
    kernel_name, inputs, outputs = name.split()[0], call.inputs, call.outputs
    once = (kernel_name, call.rows, inputs, outputs, call.ints, call.floats)
    kernel.before = [once] * (REPEATS - 1)
    step = StepArrays(
        rows,
        num_logit_rows=rows,
        slots=np.arange(rows),
        logit_rows=np.arange(rows, dtype=np.int32),
    )
    program = kernel.bind(
        kernel_name, inputs, outputs, call.ints, call.floats, step=step, rows=call.rows
    )
    native = step.native()
    times: list[float] = []
    end = time.perf_counter() + budget
    while len(times) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        program.run(native, rows, 1, rows)
        times.append(time.perf_counter() - start)
    return min(times) / REPEATS, call.row_bytes * rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--levels", nargs="+", choices=LEVELS, default=LEVELS[:1])
    parser.add_argument("--rows", nargs="+", type=int, default=[1, 32, 512])
    parser.add_argument("--threads", nargs="+", type=int, default=[2])
    parser.add_argument("--budget", type=float, default=0.03, help="seconds per case")
    options = parser.parse_args()
    for level in options.levels:
        for threads in options.threads:
            rates = measured([level], [threads])[level, threads]
            print("kernel                    rows        us   GB/s  share")
            for name in CASES:
                for rows in options.rows:
                    t, num_bytes = seconds(name, rows, level, threads, options.budget)
                    rate = num_bytes / t
                    share = rate / read_rate(rates, num_bytes)
                    print(f"{name:24} {rows:5} {1e6 * t:9.2f} {1e-9 * rate:6.1f} {share:6.0%}")


if __name__ == "__main__":
    main()
