"""Arena: where each value lies, in bytes per row, reused as soon as a value is dead.

All values of one row kind have the same number of rows in a step, so an address is the arena's
start + offset * rows: dense for one row and for two thousand. Knows no pointer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from octavo.kernels import DType, RowKind
from octavo.ops.program import Program, ValueInfo

ROW_ALIGNMENT_BYTES = 64


@dataclass(frozen=True, slots=True)
class Placement:
    """`offset` and `row_bytes` in bytes per row; [first, last] are the instructions it lives."""

    rows: RowKind
    offset: int
    row_bytes: int
    first: int
    last: int

    def overlaps(self, other: Placement) -> bool:
        return (
            self.rows is other.rows
            and self.first <= other.last
            and other.first <= self.last
            and self.offset < other.offset + other.row_bytes
            and other.offset < self.offset + self.row_bytes
        )


@dataclass(frozen=True, slots=True)
class ArenaPlan:
    """`row_bytes[kind]` is the arena's size in bytes per row of that kind."""

    placements: tuple[Placement, ...]
    row_bytes: tuple[int, int, int]


def plan_arena(program: Program, q8_row_bytes: Callable[[int], int]) -> ArenaPlan:
    """Place values in order of first use, each at the lowest offset that is free while it lives.

    `q8_row_bytes(width)` is the size of an int8 row in the native core.
    """
    uses = program.uses()
    if program.hidden is not None:
        uses[program.hidden.value].append(len(program.instructions))
    placements: dict[int, Placement] = {}
    for value in sorted(uses, key=lambda v: (uses[v][0], v)):
        info = program.values[value]
        size = _row_bytes(info, q8_row_bytes)
        first, last = uses[value][0], uses[value][-1]
        live = [p for p in placements.values() if p.rows is info.rows and p.last >= first]
        placements[value] = Placement(info.rows, _lowest_gap(live, size), size, first, last)
    return ArenaPlan(
        placements=tuple(placements[value] for value in range(len(program.values))),
        row_bytes=(
            _end(placements, RowKind.TOKENS),
            _end(placements, RowKind.SEQUENCES),
            _end(placements, RowKind.LOGITS),
        ),
    )


def _row_bytes(info: ValueInfo, q8_row_bytes: Callable[[int], int]) -> int:
    if info.dtype is DType.Q8:
        return q8_row_bytes(info.width)
    return -(-info.width * 4 // ROW_ALIGNMENT_BYTES) * ROW_ALIGNMENT_BYTES


def _lowest_gap(live: list[Placement], size: int) -> int:
    offset = 0
    for placement in sorted(live, key=lambda p: p.offset):
        if offset + size <= placement.offset:
            break
        offset = max(offset, placement.offset + placement.row_bytes)
    return offset


def _end(placements: dict[int, Placement], kind: RowKind) -> int:
    ends = [p.offset + p.row_bytes for p in placements.values() if p.rows is kind]
    return max(ends, default=0)
