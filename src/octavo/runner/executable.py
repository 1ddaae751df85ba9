"""What runs a filled `Step`: one protocol, so that the runner does not know which it holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from octavo.kernels import OperandKind
from octavo.kernels._native import (
    KvCache,
    PackedMatrix,
    ThreadPool,
    activation_row_bytes,
)
from octavo.kernels._native import Program as NativeProgram
from octavo.kernels._native import Step as NativeStep
from octavo.ops.arena import ArenaPlan, plan_arena
from octavo.ops.program import Columns, Constant, Instruction, Operand, Pages, Program
from octavo.runner.step import Step
from octavo.weights.loader import LoadedWeights
from octavo.weights.weight import Weight

if TYPE_CHECKING:  # names of the stub alone
    from octavo.kernels._native import InstructionSpec, OperandSpec

Logits = npt.NDArray[np.float32]
Hidden = npt.NDArray[np.float32]

_NONE: OperandSpec = (OperandKind.NONE, 0, 0, 0, 0, 0, 0, None)


class Executable(Protocol):
    @property
    def program(self) -> Program: ...

    def run(self) -> Logits:
        """Compute the step as its buffers now say; logits [logit rows, vocabulary], valid until
        the next run."""
        ...

    def hidden(self) -> Hidden:
        """The rows [tokens, K] that last norm and head took theirs from in the latest run, valid
        until the next one. Costs nothing."""
        ...

    def profile(self) -> list[float]:
        """The same, for its time: seconds of each instruction of the program."""
        ...


class ProgramExecutable:
    """A program bound to its weights, pages, threads and step, run by the native core."""

    def __init__(
        self,
        program: Program,
        weights: LoadedWeights,
        pages: KvCache,
        pool: ThreadPool,
        level: str,
        step: Step,
    ) -> None:
        plan = plan_arena(program, activation_row_bytes)
        binding = _Binding(program, plan, weights, pages)
        limits = step.limits
        self.program = program
        self._step = step
        self._native_step = NativeStep(
            step.token_ids,
            step.positions,
            step.token_sequences,
            step.slots,
            step.query_starts,
            step.context_lengths,
            step.page_tables,
            step.logit_rows,
        )
        self._native = NativeProgram(
            pool,
            level,
            [binding.instruction(instruction) for instruction in program.instructions],
            plan.row_bytes,
            (limits.max_tokens, limits.max_sequences, limits.max_logit_rows),
        )
        self._result = binding.operand(program.result)
        self._hidden = binding.operand(program.hidden)

    def run(self) -> Logits:
        step = self._step
        self._native.run(
            self._native_step, step.num_tokens, step.num_sequences, step.num_logit_rows
        )
        return self._native.view(self._result, step.num_logit_rows)

    def hidden(self) -> Hidden:
        return self._native.view(self._hidden, self._step.num_tokens)

    def profile(self) -> list[float]:
        step = self._step
        return self._native.profile(
            self._native_step, step.num_tokens, step.num_sequences, step.num_logit_rows
        )


class _Binding:
    """Turns a program's operands into addresses, pointers and numbers."""

    def __init__(
        self, program: Program, plan: ArenaPlan, weights: LoadedWeights, pages: KvCache
    ) -> None:
        self._program = program
        self._plan = plan
        self._weights: Mapping[str, PackedMatrix | npt.NDArray[np.float32]] = weights
        self._pages = pages

    def instruction(self, instruction: Instruction) -> InstructionSpec:
        return (
            instruction.kernel,
            instruction.rows,
            [self.operand(operand) for operand in instruction.inputs],
            [self.operand(operand) for operand in instruction.outputs],
            instruction.ints,
            instruction.floats,
        )

    def operand(self, operand: Operand) -> OperandSpec:
        match operand:
            case None:
                return _NONE
            case Columns():
                return self._columns(operand)
            case Pages(layer):
                return (OperandKind.KV, 0, 0, 0, 0, 0, 0, (self._pages, layer))
            case Constant():
                width = len(operand.values)
                return (OperandKind.VECTOR, 0, 0, width, 0, 0, 0, operand.values)
            case Weight():
                kind = OperandKind.MATRIX if operand.is_matrix else OperandKind.VECTOR
                held = self._weights[operand.name]
                return (kind, 0, 0, operand.shape[-1], 0, 0, 0, held)

    def _columns(self, columns: Columns) -> OperandSpec:
        info = self._program.values[columns.value]
        placement = self._plan.placements[columns.value]
        return (
            OperandKind.ARENA,
            info.rows,
            info.dtype,
            columns.width,
            placement.offset,
            columns.start * 4,
            placement.row_bytes,
            None,
        )
