"""From a model's forward function to a program ready to bind: record, fuse, lower, order."""

from __future__ import annotations

from collections.abc import Callable

from octavo.ops.fusion import IsInteger, fuse_before_lowering, fuse_quantize
from octavo.ops.lowering import lower
from octavo.ops.ordering import ordered
from octavo.ops.program import Program
from octavo.ops.recording import AbstractValue, RecordingOps


def compile_program(
    forward: Callable[[RecordingOps], AbstractValue], is_integer: IsInteger, *, fuse: bool = True
) -> Program:
    """Record `forward` and make it executable; `fuse=False` keeps one instruction per operation."""
    ops = RecordingOps()
    program = ops.finish(forward(ops))
    if fuse:
        program = fuse_before_lowering(program, is_integer)
    program = lower(program, is_integer)
    if fuse:
        program = fuse_quantize(program)
    return ordered(program).renumbered()
