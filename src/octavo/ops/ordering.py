"""Order: each instruction as late as its first reader allows, and none that nobody needs.

Dependencies are read off the operands: whoever touches the same columns or pages, one of them
writing, keeps the recorded order. Late placement shortens lifetimes. Knows no kernel but by name.
"""

from __future__ import annotations

from dataclasses import replace

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
    touching: dict[object, list[int]] = {}
    dependencies = []
    for index, instruction in enumerate(instructions):
        needed: set[int] = set()
        for key in _resources(instruction):
            earlier = touching.setdefault(key, [])
            needed.update(one for one in earlier if _conflict(instructions[one], instruction))
            earlier.append(index)
        dependencies.append(sorted(needed))
    return dependencies


def _resources(instruction: Instruction) -> list[object]:
    """What may be shared with others: value numbers and pages, each once."""
    values = [operand.value for operand in instruction.columns()]
    pages = [operand for operand in instruction.inputs if isinstance(operand, Pages)]
    return list(dict.fromkeys([*values, *pages]))


def _conflict(earlier: Instruction, later: Instruction) -> bool:
    if _pages(earlier) & _pages(later):
        return True
    return any(later.writes(operand) for operand in earlier.columns()) or any(
        earlier.writes(operand) for operand in _reads(later)
    )


def _reads(instruction: Instruction) -> list[Columns]:
    return [operand for operand in instruction.inputs if isinstance(operand, Columns)]


def _pages(instruction: Instruction) -> set[Pages]:
    return {operand for operand in instruction.inputs if isinstance(operand, Pages)}
