from collections.abc import Callable

import pytest

from octavo.core.model_config import RopeConfig
from octavo.errors import RecordingError
from octavo.kernels import RowKind
from octavo.ops.interface import AttentionSpec
from octavo.ops.program import Columns, ValueInfo
from octavo.ops.recording import AbstractValue, RecordingOps
from octavo.weights.weight import Weight
from tests.ops.programs import BIAS, NARROW, NORM, TABLE, WIDE, WIDTH, kernels, record


@pytest.mark.parametrize(
    "use",
    [bool, len, float, int, list, lambda v: v == v, lambda v: v < 1, lambda v: v >= 1, hash],
)
def test_numbers_of_an_abstract_value_are_refused(use: Callable[[AbstractValue], object]) -> None:
    value = RecordingOps().embed(TABLE)
    with pytest.raises((RecordingError, TypeError)):
        use(value)


def test_refusal_names_scope_and_operation() -> None:
    ops = RecordingOps()
    with ops.scope("layers.3.mlp"):
        value = ops.embed(TABLE)
    with pytest.raises(RecordingError, match=r"layers\.3\.mlp\.embed"):
        bool(value)


@pytest.mark.parametrize(("start", "stop"), [(-1, 4), (4, 4), (0, WIDTH + 1)])
def test_columns_outside_the_value_are_refused(start: int, stop: int) -> None:
    value = RecordingOps().embed(TABLE)
    with pytest.raises(RecordingError, match="columns"):
        value.columns(start, stop)


def test_columns_of_columns_count_from_the_view() -> None:
    value = RecordingOps().embed(TABLE)
    assert value.columns(16, 48).columns(8, 16).operand == Columns(0, 24, 8)


SPEC = AttentionSpec(num_heads=4, num_kv_heads=2, head_dim=16, scale=1.0)


@pytest.mark.parametrize(
    "misuse",
    [
        lambda ops, x: ops.linear(x, (NARROW,)),
        lambda ops, x: ops.linear(x, (NORM,)),
        lambda ops, x: ops.linear(x, (WIDE,), (NORM,)),
        lambda ops, x: ops.rms_norm(x, BIAS, 1e-5),
        lambda ops, x: ops.add(x, x.columns(0, 32)),
        lambda ops, x: ops.add(x, ops.gather_rows(x)),
        lambda ops, x: ops.gather_rows(ops.gather_rows(x)),
        lambda ops, x: ops.attention(x.columns(0, 32), 0, SPEC),
        lambda ops, x: ops.head_rms_norm(x, Weight("odd", (24,)), 1e-5),
        lambda ops, x: ops.rope(x, ops.rope_angles(RopeConfig(theta=1e4, rotary_dim=32)), 16),
        lambda ops, x: ops.write_pages(x, x.columns(0, 32), 0),
        lambda ops, _: ops.embed(NORM),
    ],
)
def test_shapes_that_do_not_fit_are_refused(
    misuse: Callable[[RecordingOps, AbstractValue], object],
) -> None:
    ops = RecordingOps()
    x = ops.embed(TABLE)
    with pytest.raises(RecordingError):
        misuse(ops, x)


def test_reading_what_was_overwritten_is_refused() -> None:
    ops = RecordingOps()
    x = ops.embed(TABLE)
    ops.softcap(x.columns(0, 32), 5.0)
    with pytest.raises(RecordingError, match="add: reads columns that instruction 1"):
        ops.add(x, x)


def test_columns_beside_the_overwritten_ones_may_be_read() -> None:
    ops = RecordingOps()
    x = ops.embed(TABLE)
    capped = ops.softcap(x.columns(0, 32), 5.0)
    program = ops.finish(ops.add(capped, x.columns(32, 64)))
    assert kernels(program) == ["embed", "softcap", "add"]


def test_a_program_holds_shapes_and_row_kinds() -> None:
    program = record(lambda ops: ops.gather_rows(ops.linear(ops.embed(TABLE), (WIDE, WIDE))))
    assert program.values == (
        ValueInfo(RowKind.TOKENS, WIDTH),
        ValueInfo(RowKind.TOKENS, 192),
        ValueInfo(RowKind.LOGITS, 192),
    )
    assert [i.rows for i in program.instructions] == [
        RowKind.TOKENS,
        RowKind.TOKENS,
        RowKind.LOGITS,
    ]
    assert program.result == Columns(2, 0, 192)
