"""Speed of the `linear` kernel alone: GB/s of weights at one row, T(ops)/s at more.

    python -m benchmarks.kernels.linear --formats Q4_1 Q6_K --shapes 576x576 49152x576

A program multiplies one activation with many different matrices, so that at one row the weights
come from memory (or from the last-level cache, when --megabytes is small). Times are the best of
several runs, without the quantisation of x. A multiplication and an addition are two operations.
The share is of the time that the greater of both takes at the machine's rates, measured first:
reading the weights once, or the operations in int8, of BF16 weights in bfloat16 where the processor
has that, else in float32.
"""

from __future__ import annotations

import argparse
import timeit
from dataclasses import dataclass

import gguf
import numpy as np

from benchmarks.kernels.ceilings import measured, read_rate
from octavo.bench.limits import operations_on
from octavo.bench.machine import MachineRates
from octavo.kernels import DType, OperandKind, RowKind, _native

INTEGER_FORMATS = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K"]
FLOAT_FORMATS = ["F32", "F16", "BF16"]
NONE: _native.OperandSpec = (OperandKind.NONE, 0, DType.F32, 0, 0, 0, 0, None)
MAX_OPERATIONS = 2e10  # per run, so that slow levels end


@dataclass(frozen=True)
class Case:
    level: str
    format: str
    outputs: int
    inputs: int
    threads: int


def round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def random_matrix(case: Case, pool: _native.ThreadPool, seed: int) -> _native.PackedMatrix:
    values, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[case.format]]
    count = case.outputs * case.inputs // values * size
    # Bytes below 0x3c keep every fp16 number finite.
    data = np.random.default_rng(seed).integers(0, 0x3C, count, np.uint8)
    return _native.PackedMatrix.pack(
        pool, case.format, data, case.outputs, case.inputs, case.format, None
    )


def arena_value(
    dtype: DType, width: int, offset: int, row_bytes: int
) -> tuple[_native.OperandSpec, int]:
    """A value of kind tokens at `offset`, and where the next one begins."""
    operand = (OperandKind.ARENA, RowKind.TOKENS, dtype, width, offset, 0, row_bytes, None)
    return operand, offset + row_bytes


class Bench:
    """A program that multiplies one activation with each of `packed`."""

    def __init__(
        self,
        case: Case,
        pool: _native.ThreadPool,
        packed: list[_native.PackedMatrix],
        rows: int,
    ) -> None:
        self.rows = rows
        source, end = arena_value(DType.F32, case.inputs, 0, round_up(4 * case.inputs, 64))
        x = source
        before: list[_native.InstructionSpec] = []
        if case.format not in FLOAT_FORMATS:
            q8_bytes = _native.activation_row_bytes(case.inputs)
            x, end = arena_value(DType.Q8, case.inputs, end, q8_bytes)
            before = [("quantize", RowKind.TOKENS, [source], [x], [], [])]
        y, end = arena_value(DType.F32, case.outputs, end, round_up(4 * case.outputs, 64))
        products: list[_native.InstructionSpec] = [
            ("linear", RowKind.TOKENS, [x, self._matrix(m), NONE], [y], [1, 0], []) for m in packed
        ]
        instructions = before + products
        self._num_before = len(before)
        self._program = _native.Program(pool, case.level, instructions, (end, 0, 0), (rows, 1, 1))
        self._program.view(source, rows)[:] = np.random.default_rng(0).standard_normal(case.inputs)
        zeros = np.zeros(max(rows, 2), np.int32)
        self._step = _native.Step(
            *(zeros, zeros, zeros, zeros.astype(np.int64)[:, None]),
            *(zeros, zeros, zeros[:1, None], zeros),
        )

    @staticmethod
    def _matrix(packed: _native.PackedMatrix) -> _native.OperandSpec:
        return (OperandKind.MATRIX, 0, DType.F32, packed.shape[0], 0, 0, 0, packed)

    def seconds(self, num_runs: int) -> float:
        """Of all products together: the best run, less the best quantisation."""
        whole = min(timeit.repeat(self.run, number=1, repeat=num_runs))
        return whole - min(timeit.repeat(self._run_before, number=1, repeat=num_runs))

    def run(self) -> None:
        self._program.run(self._step, self.rows, 1, 1)

    def _run_before(self) -> None:
        self._program.run_until(self._step, self.rows, 1, 1, self._num_before)


def matrices_for(
    case: Case, pool: _native.ThreadPool, num_bytes: float
) -> list[_native.PackedMatrix]:
    first = random_matrix(case, pool, 0)
    count = max(1, round(num_bytes / first.num_bytes))
    return [first, *(random_matrix(case, pool, seed) for seed in range(1, count))]


def limit_seconds(rates: MachineRates, case: Case, num_bytes: int, operations: int) -> float:
    arithmetic = operations_on(case.format, operations).least_seconds(rates)
    return max(arithmetic, num_bytes / read_rate(rates, num_bytes))


def for_rows(
    packed: list[_native.PackedMatrix], case: Case, rows: int, most_operations: float
) -> list[_native.PackedMatrix]:
    """All for one row, which reads them from memory; else so few that a run ends."""
    if rows == 1:
        return packed
    per_matrix = 2 * rows * case.outputs * case.inputs
    return packed[: max(1, int(most_operations / per_matrix))]


def measure(
    case: Case, rates: MachineRates, row_counts: list[int], num_bytes: float, num_runs: int
) -> list[str]:
    pool = _native.ThreadPool(case.threads)
    packed = matrices_for(case, pool, num_bytes)
    cells = []
    for rows in row_counts:
        used = for_rows(packed, case, rows, MAX_OPERATIONS)
        seconds = Bench(case, pool, used, rows).seconds(num_runs)
        used_bytes = sum(m.num_bytes for m in used)
        operations = 2 * rows * case.outputs * case.inputs * len(used)
        share = limit_seconds(rates, case, used_bytes, operations) / seconds
        if rows == 1:
            cells.append(f"{used_bytes / seconds / 1e9:8.1f} GB/s {share:4.0%}")
        else:
            cells.append(f"{operations / seconds / 1e12:8.3f} T/s  {share:4.0%}")
    return cells


def parse_arguments() -> argparse.Namespace:
    levels = _native.isa_levels()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--formats", nargs="+", default=["Q4_1", "Q4_K", "Q5_0", "Q8_0", "Q6_K"])
    parser.add_argument("--shapes", nargs="+", default=["1536x576", "4864x896"], metavar="NxK")
    parser.add_argument("--levels", nargs="+", default=levels[:1], choices=levels)
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--rows", nargs="+", type=int, default=[1, 8, 64, 480])
    parser.add_argument("--megabytes", type=float, default=64, help="of weights")
    parser.add_argument("--runs", type=int, default=5)
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    rates = measured(arguments.levels, arguments.threads)
    heads = "".join(f"{f'{rows} rows':>18}" for rows in arguments.rows)
    print(f"{'level':<12} {'format':<6} {'N x K':<12} {'threads':>7}{heads}")
    for level in arguments.levels:
        for shape in arguments.shapes:
            outputs, inputs = (int(part) for part in shape.split("x"))
            for name in arguments.formats:
                for threads in arguments.threads:
                    case = Case(level, name, outputs, inputs, threads)
                    num_bytes, runs = arguments.megabytes * 1e6, arguments.runs
                    rate = rates[level, threads]
                    line = "".join(measure(case, rate, arguments.rows, num_bytes, runs))
                    print(f"{level:<12} {name:<6} {shape:<12} {threads:>7}{line}", flush=True)


if __name__ == "__main__":
    main()
