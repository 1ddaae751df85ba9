from hypothesis import given

from octavo.core.model_config import RopeConfig
from octavo.ops.fusion import fuse_before_lowering
from octavo.ops.interface import AttentionSpec
from octavo.ops.lowering import lower
from octavo.ops.ordering import ordered
from octavo.ops.program import Instruction, Program
from octavo.ops.recording import AbstractValue, RecordingOps
from tests.ops.programs import SQUARE, TABLE, all_integer, kernels, record
from tests.ops.random_programs import programs


def _meet(a: Instruction, b: Instruction) -> bool:
    """Whether they touch common columns and one of them writes there."""
    return any(
        x.overlaps(y) and (x in a.outputs or y in b.outputs)
        for x in a.columns()
        for y in b.columns()
    )


def _check(before: Program, after: Program) -> None:
    old = before.instructions
    numbers = {id(instruction): number for number, instruction in enumerate(old)}
    kept = [numbers[id(instruction)] for instruction in after.instructions]
    for place, index in enumerate(kept):
        needs = {i for i in range(index) if _meet(old[i], old[index])}
        assert needs <= set(kept[:place])


@given(programs())
def test_order_keeps_every_dependency(program: Program) -> None:
    _check(program, ordered(program))
    compiled = lower(fuse_before_lowering(program, all_integer), all_integer)
    _check(compiled, ordered(compiled))


@given(programs())
def test_order_is_stable_once_made(program: Program) -> None:
    once = ordered(program)
    assert ordered(once) == once


def test_what_nobody_reads_is_dropped() -> None:
    def forward(ops: RecordingOps) -> AbstractValue:
        x = ops.embed(TABLE)
        ops.linear(x, (SQUARE,))
        return ops.gather_rows(x)

    assert kernels(ordered(record(forward))) == ["embed", "gather_rows"]


def test_page_writes_stay_before_the_attention_that_reads_them() -> None:
    def forward(ops: RecordingOps) -> AbstractValue:
        x = ops.embed(TABLE)
        ops.rope_angles(RopeConfig(theta=1e4, rotary_dim=16))
        ops.write_pages(x, x, 0)
        ops.write_pages(x, x, 1)
        spec = AttentionSpec(num_heads=4, num_kv_heads=4, head_dim=16, scale=1.0)
        return ops.attention(x, 0, spec)

    program = ordered(record(forward))
    assert kernels(program) == ["embed", "write_pages", "attention"]


def test_angles_are_computed_just_before_their_first_reader() -> None:
    def forward(ops: RecordingOps) -> AbstractValue:
        angles = ops.rope_angles(RopeConfig(theta=1e4, rotary_dim=16))
        x = ops.linear(ops.embed(TABLE), (SQUARE,))
        return ops.rope(x, angles, 16)

    assert kernels(ordered(record(forward))) == ["embed", "linear", "rope_angles", "rope"]
