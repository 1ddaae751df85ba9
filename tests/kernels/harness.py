"""Runs one native kernel on arrays: a program of one instruction, its arena and its step.

Unwritten arena memory is NaN, so that a kernel that reads what it should not shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import numpy.typing as npt

from octavo.kernels import DType, OperandKind, RowKind, _native

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
U8 = npt.NDArray[np.uint8]

LEVELS = _native.isa_levels()
PAGE_TOKENS = 16


@cache
def thread_pool(num_threads: int) -> _native.ThreadPool:
    return _native.ThreadPool(num_threads)


def round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def vector(values: F32) -> _native.OperandSpec:
    return (OperandKind.VECTOR, 0, DType.F32, len(values), 0, 0, 0, values)


def pages(kv_cache: _native.KvCache, layer: int = 0) -> _native.OperandSpec:
    return (OperandKind.KV, 0, DType.F32, 0, 0, 0, 0, (kv_cache, layer))


NONE: _native.OperandSpec = (OperandKind.NONE, 0, DType.F32, 0, 0, 0, 0, None)


def columns(operand: _native.OperandSpec, first: int, count: int) -> _native.OperandSpec:
    """A view of some columns of a float32 value."""
    kind, rows, dtype, _, offset, _, stride, _ = operand
    return (kind, rows, dtype, count, offset, 4 * first, stride, None)


@dataclass
class StepArrays:
    """The arrays of a step, for kernels that read them. By default one sequence at position 0."""

    num_tokens: int
    num_sequences: int = 1
    num_logit_rows: int = 1
    token_ids: I32 | None = None
    positions: I32 | None = None
    slots: I64 | None = None
    query_starts: I32 | None = None
    page_tables: I32 | None = None
    logit_rows: I32 | None = None

    def native(self) -> _native.Step:
        tokens = np.zeros(self.num_tokens, np.int32)
        return _native.Step(
            tokens if self.token_ids is None else self.token_ids,
            np.arange(self.num_tokens, dtype=np.int32)
            if self.positions is None
            else self.positions,
            tokens,
            np.zeros((self.num_tokens, 1), np.int64)
            if self.slots is None
            else self.slots.reshape(self.num_tokens, -1),
            np.zeros(self.num_sequences + 1, np.int32)
            if self.query_starts is None
            else self.query_starts,
            np.zeros(self.num_sequences, np.int32),
            np.zeros((self.num_sequences, 1), np.int32)
            if self.page_tables is None
            else self.page_tables,
            np.zeros(self.num_logit_rows, np.int32) if self.logit_rows is None else self.logit_rows,
        )


@dataclass
class OneKernel:
    """The operands of one instruction. Declare them, `run`, then `read` what it wrote."""

    level: str
    num_threads: int = 1
    before: list[_native.InstructionSpec] = field(default_factory=list)
    """Instructions that make the kernel's inputs."""
    _row_bytes: list[int] = field(default_factory=lambda: [0, 0, 0])
    _contents: list[tuple[_native.OperandSpec, F32]] = field(default_factory=list)
    _program: _native.Program | None = None

    def output(self, width: int, rows: RowKind = RowKind.TOKENS) -> _native.OperandSpec:
        """A float32 value of the arena; its rows are 64 bytes longer than they need be."""
        stride = round_up(4 * width, 64) + 64
        return self._place(DType.F32, rows, width, stride)

    def q8(self, width: int) -> _native.OperandSpec:
        return self._place(DType.Q8, RowKind.TOKENS, width, _native.activation_row_bytes(width))

    def value(self, array: F32, rows: RowKind = RowKind.TOKENS) -> _native.OperandSpec:
        """A float32 value [rows, width] that holds `array` when the kernel starts."""
        operand = self.output(array.shape[1], rows)
        self._contents.append((operand, array))
        return operand

    def _place(self, dtype: DType, rows: RowKind, width: int, stride: int) -> _native.OperandSpec:
        offset = self._row_bytes[rows]
        self._row_bytes[rows] += stride
        return (OperandKind.ARENA, rows, dtype, width, offset, 0, stride, None)

    def bind(
        self,
        kernel: str,
        inputs: Sequence[_native.OperandSpec],
        outputs: Sequence[_native.OperandSpec],
        ints: Sequence[int] = (),
        floats: Sequence[float] = (),
        *,
        step: StepArrays,
        rows: RowKind = RowKind.TOKENS,
    ) -> _native.Program:
        """The program of one instruction, its arena filled with NaN and then the inputs."""
        counts = (step.num_tokens, step.num_sequences, step.num_logit_rows)
        program = _native.Program(
            thread_pool(self.num_threads),
            self.level,
            [*self.before, (kernel, rows, inputs, outputs, ints, floats)],
            (self._row_bytes[0], self._row_bytes[1], self._row_bytes[2]),
            counts,
        )
        for kind, row_bytes in enumerate(self._row_bytes):
            if row_bytes:
                whole = (OperandKind.ARENA, kind, DType.F32, row_bytes // 4, 0, 0, row_bytes, None)
                program.view(whole, counts[kind])[:] = np.nan
        for operand, array in self._contents:
            program.view(operand, len(array))[:] = array
        self._program = program
        return program

    def run(
        self,
        kernel: str,
        inputs: Sequence[_native.OperandSpec],
        outputs: Sequence[_native.OperandSpec],
        ints: Sequence[int] = (),
        floats: Sequence[float] = (),
        *,
        step: StepArrays,
        rows: RowKind = RowKind.TOKENS,
    ) -> None:
        program = self.bind(kernel, inputs, outputs, ints, floats, step=step, rows=rows)
        program.run(step.native(), step.num_tokens, step.num_sequences, step.num_logit_rows)

    def read(self, operand: _native.OperandSpec, num_rows: int) -> F32:
        assert self._program is not None
        return self._program.view(operand, num_rows).copy()

    def read_bytes(self, operand: _native.OperandSpec, num_rows: int) -> U8:
        """[num_rows, row stride] raw bytes, for q8 values."""
        assert self._program is not None
        kind, rows, _, _, offset, _, stride, _ = operand
        raw = (kind, rows, DType.F32, stride // 4, offset, 0, stride, None)
        return self._program.view(raw, num_rows).copy().view(np.uint8)
