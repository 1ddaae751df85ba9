"""How fast a step can be at best: the weights once from memory, the products at their rates.

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

FLOAT32_PRODUCTS = ("F32", "F16")
BLOCKS = {kind.name: (kind.block_bytes, kind.block_values) for kind in TENSOR_TYPES.values()}


@dataclass(frozen=True, slots=True)
class Operations:
    """Multiplications and additions, by what the weights are multiplied as."""

    int8: int = 0
    f32: int = 0
    bf16: int = 0

    def __add__(self, other: Operations) -> Operations:
        return Operations(self.int8 + other.int8, self.f32 + other.f32, self.bf16 + other.bf16)

    def __mul__(self, times: int) -> Operations:
        return Operations(self.int8 * times, self.f32 * times, self.bf16 * times)

    def least_seconds(self, rates: MachineRates) -> float:
        return (
            self.int8 / rates.int8_operations_per_second
            + self.f32 / rates.f32_operations_per_second
            + self.bf16 / (rates.bf16_operations_per_second or rates.f32_operations_per_second)
        )


def operations_on(held: str, count: int) -> Operations:
    """`count` operations with weights held in the format `held`, a GGUF type's name."""
    if held == "BF16":
        return Operations(bf16=count)
    return Operations(f32=count) if held in FLOAT32_PRODUCTS else Operations(int8=count)


@dataclass(frozen=True, slots=True)
class StepCost:
    """What a step must do: bytes of matrices it reads once, and operations per row of each kind."""

    weight_bytes: int
    per_token: Operations
    per_logit_row: Operations

    def operations(self, num_tokens: int, num_logit_rows: int) -> Operations:
        return self.per_token * num_tokens + self.per_logit_row * num_logit_rows

    def least_seconds(
        self, rates: MachineRates, num_tokens: int, num_logit_rows: int, num_steps: int = 1
    ) -> float:
        """No `num_steps` steps of so many rows together can be faster: each reads the weights
        again, and memory and arithmetic at best overlap wholly."""
        reading = num_steps * self.weight_bytes / rates.bytes_per_second
        return max(reading, self.operations(num_tokens, num_logit_rows).least_seconds(rates))


def step_cost(file: GGUFFile, dtype: str, quantization: str = "none") -> StepCost:
    """Of the file's model with weights held as `dtype` says ("auto": as in the file)."""
    model = model_from_gguf(file)
    return cost_of(file, compile_for_file(file, model, dtype, quantization), dtype, quantization)


def cost_of(file: GGUFFile, program: Program, dtype: str, quantization: str = "none") -> StepCost:
    num_bytes = 0
    operations = dict.fromkeys(RowKind, Operations())
    for instruction in program.instructions:
        if instruction.kernel == "embed":  # reads a row per token, not the matrix
            continue
        for operand in instruction.inputs:
            if isinstance(operand, Weight) and operand.is_matrix:
                rows, columns = operand.shape
                held = held_format(file, operand, dtype, quantization)
                block_bytes, block_values = BLOCKS[held]
                num_bytes += rows * columns * block_bytes // block_values
                operations[instruction.rows] += operations_on(held, 2 * rows * columns)
    return StepCost(num_bytes, operations[RowKind.TOKENS], operations[RowKind.LOGITS])
