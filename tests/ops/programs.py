"""Small weights and forward functions for tests of the compiler."""

from __future__ import annotations

from collections.abc import Callable

from octavo.ops.fusion import fuse_before_lowering
from octavo.ops.program import Program
from octavo.ops.recording import AbstractValue, RecordingOps
from octavo.weights.weight import Weight

Forward = Callable[[RecordingOps], AbstractValue]

WIDTH = 64
TABLE = Weight("table", (100, WIDTH))
NORM = Weight("norm", (WIDTH,))
WIDE = Weight("wide", (96, WIDTH))
WIDE_TOO = Weight("wide_too", (96, WIDTH))
NARROW = Weight("narrow", (WIDTH, 96))
SQUARE = Weight("square", (WIDTH, WIDTH))
SQUARE_TOO = Weight("square_too", (WIDTH, WIDTH))
BIAS = Weight("bias", (96,))


def all_integer(weight: Weight) -> bool:
    return weight.is_matrix


def all_float(weight: Weight) -> bool:
    return not weight.is_matrix


def record(forward: Forward) -> Program:
    ops = RecordingOps()
    return ops.finish(forward(ops))


def fused(forward: Forward) -> Program:
    return fuse_before_lowering(record(forward), all_integer)


def kernels(program: Program) -> list[str]:
    return [instruction.kernel for instruction in program.instructions]
