"""Order: each instruction as late as its first reader allows, and none that nobody needs.

Dependencies are read off the operands: whoever touches the same columns or pages, one of them
writing, keeps the recorded order. Late placement shortens lifetimes. Knows no kernel but by name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from octavo.ops.program import Columns, Instruction, Pages, Program


def ordered(program: Program) -> Program:
    """The program in depth-first order from its result, recorded order among equals."""
    dependencies = _dependencies(program.instructions)
    roots = [i for i, one in enumerate(program.instructions) if one.writes(program.result)]
    placed: dict[int, None] = {}
    stack = [(root, False) for root in reversed(roots)]
    while stack:
        index, is_ready = stack.pop()
        if is_ready:
            placed[index] = None
        elif index not in placed:
            stack.append((index, True))
            stack += [(one, False) for one in reversed(dependencies[index]) if one not in placed]
    return replace(program, instructions=tuple(program.instructions[i] for i in placed))


def _dependencies(instructions: tuple[Instruction, ...]) -> list[list[int]]:
    """For each instruction the earlier ones that it must follow, ascending."""
    users: dict[object, list[_Use]] = {}
    dependencies = []
    for index, instruction in enumerate(instructions):
        needed: set[int] = set()
        for resource, use in _uses(index, instruction):
            earlier = users.setdefault(resource, [])
            needed.update(one.instruction for one in earlier if use.conflicts(one))
            earlier.append(use)
        dependencies.append(sorted(needed))
    return dependencies


class _Use(NamedTuple):
    """What an instruction, by its number, does to columns [start, stop) of a value or to pages."""

    instruction: int
    start: int
    stop: int
    is_write: bool

    def conflicts(self, other: _Use) -> bool:
        """Of one resource. Plain comparisons: long programs have tens of thousands of pairs."""
        if self.instruction == other.instruction:
            return False
        is_shared = self.start < other.stop and other.start < self.stop
        return is_shared and (self.is_write or other.is_write)


def _uses(index: int, instruction: Instruction) -> Iterator[tuple[object, _Use]]:
    """By value number or pages. All who touch pages keep their order, as if each wrote there."""
    for operand in instruction.inputs:
        if isinstance(operand, Columns):
            yield operand.value, _Use(index, operand.start, operand.stop, is_write=False)
        elif isinstance(operand, Pages):
            yield operand, _Use(index, 0, 1, is_write=True)
    for written in instruction.outputs:
        yield written.value, _Use(index, written.start, written.stop, is_write=True)
