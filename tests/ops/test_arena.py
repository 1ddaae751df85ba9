from itertools import combinations

from hypothesis import given

from octavo.kernels import RowKind
from octavo.ops.arena import ArenaPlan, plan_arena
from octavo.ops.fusion import fuse_before_lowering, fuse_quantize
from octavo.ops.lowering import lower
from octavo.ops.ordering import ordered
from octavo.ops.program import Program
from octavo.ops.recording import AbstractValue, RecordingOps
from tests.ops.programs import NORM, SQUARE, TABLE, all_integer, record
from tests.ops.random_programs import programs


def _q8_row_bytes(width: int) -> int:
    return (width // 32 * 48 + 63) // 64 * 64


def _plan(program: Program) -> ArenaPlan:
    return plan_arena(program, _q8_row_bytes)


def _check(program: Program) -> None:
    """By brute force over instructions, independently of the planner's own bookkeeping."""
    plan = _plan(program)
    written: dict[int, int] = {}
    for index, instruction in enumerate(program.instructions):
        for output in instruction.outputs:
            written.setdefault(output.value, index)
    last = {o.value: i for i, one in enumerate(program.instructions) for o in one.columns()}
    last[program.result.value] = len(program.instructions)
    if program.hidden is not None:
        last[program.hidden.value] = len(program.instructions)
    for index in range(len(program.instructions)):
        live = [v for v in written if written[v] <= index <= last[v]]
        for a, b in combinations([plan.placements[v] for v in live], 2):
            apart = a.offset + a.row_bytes <= b.offset or b.offset + b.row_bytes <= a.offset
            assert apart or a.rows is not b.rows
    for value, placement in enumerate(plan.placements):
        info = program.values[value]
        assert placement.offset % 64 == 0
        assert placement.row_bytes % 64 == 0
        assert placement.row_bytes >= info.width * (4 if info.dtype.name == "F32" else 1)
        assert placement.offset + placement.row_bytes <= plan.row_bytes[info.rows]


@given(programs())
def test_no_two_live_values_overlap(program: Program) -> None:
    _check(ordered(program).renumbered())
    compiled = lower(fuse_before_lowering(program, all_integer), all_integer)
    _check(ordered(fuse_quantize(compiled)).renumbered())


def test_dead_values_give_their_place_to_new_ones() -> None:
    def forward(ops: RecordingOps) -> AbstractValue:
        x = ops.embed(TABLE)
        for _ in range(20):
            x = ops.rms_norm(ops.linear(x, (SQUARE,)), NORM, 1e-5)
        return ops.gather_rows(x)

    plan = _plan(record(forward))
    assert plan.row_bytes == (2 * 64 * 4, 0, 64 * 4)


def test_the_result_outlives_the_program() -> None:
    def forward(ops: RecordingOps) -> AbstractValue:
        x = ops.embed(TABLE)
        ops.linear(x, (SQUARE,))
        return x

    plan = _plan(record(forward))
    assert plan.placements[0].last == 2
    assert plan.placements[0].rows is RowKind.TOKENS


def test_the_hidden_rows_outlive_the_program() -> None:
    """What comes after the last norm needs room of the same kind, and must not take theirs."""

    def forward(ops: RecordingOps) -> AbstractValue:
        hidden = ops.embed(TABLE)
        wanted = ops.gather_rows(hidden)
        later = ops.linear(ops.embed(TABLE), (SQUARE,))
        return ops.add(wanted, ops.gather_rows(later))

    program = record(forward)
    assert program.hidden == program.instructions[0].outputs[0]
    _check(program)
    placements = _plan(program).placements
    kept = placements[program.hidden.value]
    assert kept.last == len(program.instructions)
    others = [one for one in placements if one is not kept and one.rows is kept.rows]
    assert others
    assert not any(kept.overlaps(other) for other in others)
