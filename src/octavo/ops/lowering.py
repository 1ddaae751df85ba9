"""Lowering: give every matrix product the activations that its weights' format takes.

Integer formats take int8 activations, so a `quantize` goes before them, one per value, shared by
all its readers. Float formats take float32. A stack that mixes the two is split.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import groupby

from octavo.errors import RecordingError
from octavo.kernels import DType
from octavo.ops.fusion import QUANTIZE_GROUP, IsInteger
from octavo.ops.program import Columns, Instruction, Operand, Program, ValueInfo
from octavo.weights.weight import Weight


def lower(program: Program, is_integer: IsInteger) -> Program:
    lowering = _Lowering(program, is_integer)
    for instruction in program.instructions:
        for part in _split(instruction, is_integer):
            lowering.append(part)
    return replace(
        program, values=tuple(lowering.values), instructions=tuple(lowering.instructions)
    )


class _Lowering:
    """The new program under construction. `quantized` holds the int8 twins of float operands,
    by value number."""

    def __init__(self, program: Program, is_integer: IsInteger) -> None:
        self.values = list(program.values)
        self.instructions: list[Instruction] = []
        self.quantized: defaultdict[int, dict[Columns, Columns]] = defaultdict(dict)
        self._is_integer = is_integer

    def append(self, instruction: Instruction) -> None:
        weights = _matrices(instruction)
        if weights and self._is_integer(weights[0]):
            x = instruction.inputs[0]
            assert isinstance(x, Columns)
            inputs = (self._quantize(x, instruction), *instruction.inputs[1:])
            instruction = replace(instruction, inputs=inputs)
        self.instructions.append(instruction)
        for written in instruction.outputs:
            twins = self.quantized[written.value]
            for operand in filter(written.overlaps, list(twins)):
                del twins[operand]

    def _quantize(self, x: Columns, user: Instruction) -> Columns:
        twins = self.quantized[x.value]
        if x in twins:
            return twins[x]
        if x.width % QUANTIZE_GROUP:
            raise RecordingError(
                f"{user.scope}: {x.width} columns cannot be quantised; a multiple of "
                f"{QUANTIZE_GROUP} is needed"
            )
        self.values.append(ValueInfo(user.rows, x.width, DType.Q8))
        output = Columns(len(self.values) - 1, 0, x.width)
        self.instructions.append(Instruction("quantize", user.scope, user.rows, (x,), (output,)))
        twins[x] = output
        return output


def _matrices(instruction: Instruction) -> list[Weight]:
    if instruction.kernel not in ("linear", "linear_gated"):
        return []
    return [o for o in instruction.inputs if isinstance(o, Weight) and o.is_matrix]


def _split(instruction: Instruction, is_integer: IsInteger) -> list[Instruction]:
    """Parts of a stacked linear whose weights all take the same activations."""
    kinds = {is_integer(weight) for weight in _matrices(instruction)}
    if len(kinds) < 2:
        return [instruction]
    if instruction.kernel != "linear":
        raise RecordingError(f"{instruction.scope}: {instruction.kernel} of int and float weights")
    x, *rest = instruction.inputs
    pairs = list(zip(rest[::2], rest[1::2], strict=True))
    start = instruction.outputs[0].start
    parts = []
    for _, group in groupby(pairs, key=lambda pair: is_integer(_weight(pair[0]))):
        segments = list(group)
        width = sum(_weight(weight).shape[0] for weight, _ in segments)
        inputs = (x, *(operand for pair in segments for operand in pair))
        output = replace(instruction.outputs[0], start=start, width=width)
        ints = (len(segments), instruction.ints[1])
        parts.append(replace(instruction, inputs=inputs, outputs=(output,), ints=ints))
        start += width
    return parts


def _weight(operand: Operand) -> Weight:
    assert isinstance(operand, Weight)
    return operand
