"""How fast a step can be at best: the weights once from memory, the products at the int8 rate.

A roofline (Williams, Waterman, Patterson 2009) with two ceilings. Knows no clock.
"""

from __future__ import annotations

from dataclasses import dataclass

from octavo.bench.machine import MachineRates
from octavo.kernels import RowKind
from octavo.models.registry import model_from_gguf
from octavo.ops.program import Program
from octavo.runner.load import compile_for_file
from octavo.weights.gguf import GGUFFile
from octavo.weights.gguf_types import TENSOR_TYPES
from octavo.weights.loader import held_format
from octavo.weights.weight import Weight

BLOCKS = {kind.name: (kind.block_bytes, kind.block_values) for kind in TENSOR_TYPES.values()}


@dataclass(frozen=True, slots=True)
class StepCost:
    """What a step must do: bytes of matrices it reads once, and operations per row of each kind."""

    weight_bytes: int
    operations_per_token: int
    operations_per_logit_row: int

    def operations(self, num_tokens: int, num_logit_rows: int) -> int:
        return (
            num_tokens * self.operations_per_token + num_logit_rows * self.operations_per_logit_row
        )

    def least_seconds(
        self, rates: MachineRates, num_tokens: int, num_logit_rows: int, num_steps: int = 1
    ) -> float:
        """No `num_steps` steps of so many rows together can be faster: each reads the weights
        again, and memory and arithmetic at best overlap wholly."""
        reading = num_steps * self.weight_bytes / rates.bytes_per_second
        operations = self.operations(num_tokens, num_logit_rows)
        return max(reading, operations / rates.int8_operations_per_second)


def step_cost(file: GGUFFile, dtype: str, quantization: str = "none") -> StepCost:
    """Of the file's model with weights held as `dtype` says ("auto": as in the file)."""
    model = model_from_gguf(file)
    return cost_of(file, compile_for_file(file, model, dtype, quantization), dtype, quantization)


def cost_of(file: GGUFFile, program: Program, dtype: str, quantization: str = "none") -> StepCost:
    num_bytes = 0
    operations = dict.fromkeys(RowKind, 0)
    for instruction in program.instructions:
        if instruction.kernel == "embed":  # reads a row per token, not the matrix
            continue
        for operand in instruction.inputs:
            if isinstance(operand, Weight) and operand.is_matrix:
                rows, columns = operand.shape
                block_bytes, block_values = BLOCKS[held_format(file, operand, dtype, quantization)]
                num_bytes += rows * columns * block_bytes // block_values
                operations[instruction.rows] += 2 * rows * columns
    return StepCost(num_bytes, operations[RowKind.TOKENS], operations[RowKind.LOGITS])
