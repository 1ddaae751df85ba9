"""Each fusion happens where it may, and nowhere else."""

import pytest

from octavo.core.model_config import RopeConfig
from octavo.ops.fusion import fuse_before_lowering, fuse_quantize
from octavo.ops.interface import AttentionSpec, KeyOffset
from octavo.ops.lowering import lower
from octavo.ops.program import Columns
from octavo.ops.recording import AbstractValue, RecordingOps
from octavo.weights.weight import Weight
from tests.ops.programs import (
    BIAS,
    NARROW,
    NORM,
    SQUARE,
    SQUARE_TOO,
    TABLE,
    WIDE,
    WIDE_TOO,
    all_integer,
    fused,
    kernels,
    record,
)


def _mlp(ops: RecordingOps, x: AbstractValue) -> AbstractValue:
    gate, up = ops.linear(x, (WIDE,)), ops.linear(x, (WIDE_TOO,))
    return ops.linear(ops.gated_activation(gate, up, "silu"), (NARROW,))


def test_gate_up_and_activation_become_one() -> None:
    program = fused(lambda ops: _mlp(ops, ops.embed(TABLE)))
    assert kernels(program) == ["embed", "linear_gated", "linear"]
    assert program.instructions[1].inputs == (Columns(0, 0, 64), WIDE, WIDE_TOO)


def test_a_gate_that_is_read_again_is_kept() -> None:
    def forward(ops: RecordingOps) -> AbstractValue:
        x = ops.embed(TABLE)
        gate, up = ops.linear(x, (WIDE,)), ops.linear(x, (WIDE_TOO,))
        return ops.add(ops.gated_activation(gate, up, "silu"), gate)

    assert "linear_gated" not in kernels(fused(forward))


def test_a_gate_with_a_bias_is_kept() -> None:
    def forward(ops: RecordingOps) -> AbstractValue:
        x = ops.embed(TABLE)
        gate, up = ops.linear(x, (WIDE,), (BIAS,)), ops.linear(x, (WIDE_TOO,))
        return ops.gated_activation(gate, up, "silu")

    assert "linear_gated" not in kernels(fused(forward))


def test_gate_and_up_of_different_kinds_are_kept() -> None:
    program = fuse_before_lowering(
        record(lambda ops: _mlp(ops, ops.embed(TABLE))), lambda weight: weight is WIDE
    )
    assert "linear_gated" not in kernels(program)


def test_a_gate_whose_input_changes_before_the_activation_is_kept() -> None:
    def forward(ops: RecordingOps) -> AbstractValue:
        x = ops.embed(TABLE)
        gate, up = ops.linear(x, (WIDE,)), ops.linear(x, (WIDE_TOO,))
        ops.softcap(x, 5.0)
        return ops.gated_activation(gate, up, "silu")

    assert "linear_gated" not in kernels(fused(forward))


@pytest.mark.parametrize("swapped", [False, True])
def test_a_residual_add_moves_into_the_linear(swapped: bool) -> None:
    def forward(ops: RecordingOps) -> AbstractValue:
        x = ops.embed(TABLE)
        y = ops.linear(ops.rms_norm(x, NORM, 1e-5), (SQUARE,))
        return ops.rms_norm(ops.add(y, x) if swapped else ops.add(x, y), NORM, 1e-5)

    program = fused(forward)
    assert kernels(program) == ["embed", "rms_norm", "linear", "rms_norm"]
    linear, last = program.instructions[2:]
    assert linear.outputs == (Columns(0, 0, 64),)
    assert linear.ints == (1, 1)
    assert last.inputs[0] == Columns(0, 0, 64)


def test_a_chain_of_residuals_lives_in_one_value() -> None:
    def forward(ops: RecordingOps) -> AbstractValue:
        x = ops.embed(TABLE)
        for _ in range(3):
            x = ops.add(x, ops.linear(ops.rms_norm(x, NORM, 1e-5), (SQUARE,)))
            x = ops.add(x, ops.rms_norm(_mlp(ops, x), NORM, 1e-5))
        return x

    program = fused(forward)
    assert program.result == Columns(0, 0, 64)
    assert "add" not in kernels(program)
    assert kernels(program).count("rms_norm_add") == 3


def test_a_residual_that_is_read_later_is_kept() -> None:
    def forward(ops: RecordingOps) -> AbstractValue:
        x = ops.embed(TABLE)
        y = ops.add(x, ops.linear(x, (SQUARE,)))
        return ops.add(y, ops.linear(x, (SQUARE,)))

    program = fused(forward)
    assert kernels(program) == ["embed", "linear", "add", "linear"]
    assert program.instructions[2].outputs != program.instructions[2].inputs[:1]


def test_a_linear_that_is_read_again_is_not_folded() -> None:
    def forward(ops: RecordingOps) -> AbstractValue:
        x = ops.embed(TABLE)
        y = ops.linear(x, (SQUARE,))
        return ops.add(ops.add(x, y), y)

    assert kernels(fused(forward)) == ["embed", "linear", "add", "add"]


SPEC = AttentionSpec(num_heads=4, num_kv_heads=2, head_dim=16, scale=0.25)
HEAD_NORM = Weight("head_norm", (16,))
QKV = (SQUARE, Weight("k", (32, 64)), Weight("v", (32, 64)))
ROPE = RopeConfig(theta=1e4, rotary_dim=16)


OFFSET = KeyOffset(vector=Weight("key.bias", (32,)), rotary_dim=16, num_turning=3)


def _attention(
    ops: RecordingOps, *, norms: bool = False, peeks: bool = False, gap: bool = False
) -> AbstractValue:
    x = ops.embed(TABLE)
    angles = ops.rope_angles(ROPE)
    qkv = ops.linear(x, (*QKV, SQUARE) if gap else QKV)
    q, k, v = qkv.columns(0, 64), qkv.columns(64, 96), qkv.columns(96, 128)
    if norms:
        q, k = ops.head_rms_norm(q, HEAD_NORM, 1e-6), ops.head_rms_norm(k, HEAD_NORM, 1e-6)
    q = ops.rope(q, angles, 16)
    k = ops.rope(k, angles, 16)
    if peeks:
        v = ops.add(v, v)
    ops.write_pages(k, v, 0, OFFSET)
    return ops.attention(q, 0, SPEC)


@pytest.mark.parametrize("norms", [False, True])
def test_norms_rope_and_page_write_become_one(norms: bool) -> None:
    program = fused(lambda ops: _attention(ops, norms=norms))
    assert kernels(program) == ["embed", "rope_angles", "linear", "rope_write_pages", "attention"]
    fused_write = program.instructions[3]
    assert fused_write.inputs[0] == fused_write.outputs[0] == Columns(2, 0, 128)
    assert fused_write.inputs[3:5] == ((HEAD_NORM, HEAD_NORM) if norms else (None, None))
    assert fused_write.inputs[5] == OFFSET.vector
    assert fused_write.ints == (4, 2, 16, 3)
    assert program.instructions[4].inputs[0] == Columns(2, 0, 64)


def test_rope_of_values_that_are_not_side_by_side_is_kept() -> None:
    assert "rope_write_pages" not in kernels(fused(lambda ops: _attention(ops, peeks=True)))
    assert "rope_write_pages" not in kernels(fused(lambda ops: _attention(ops, gap=True)))


def test_norm_and_quantise_become_one_only_for_a_single_reader() -> None:
    def forward(ops: RecordingOps) -> AbstractValue:
        return ops.linear(ops.rms_norm(ops.embed(TABLE), NORM, 1e-5), (WIDE,))

    def forward_twice(ops: RecordingOps) -> AbstractValue:
        h = ops.rms_norm(ops.embed(TABLE), NORM, 1e-5)
        return ops.add(ops.linear(h, (SQUARE,)), h)

    once = fuse_quantize(lower(record(forward), all_integer))
    assert kernels(once) == ["embed", "rms_norm_quantize", "linear"]
    twice = fuse_quantize(lower(record(forward_twice), all_integer))
    assert kernels(twice) == ["embed", "rms_norm", "quantize", "linear", "add"]


def test_gated_product_and_quantise_become_one_only_for_a_single_reader() -> None:
    def forward_twice(ops: RecordingOps) -> AbstractValue:
        x = ops.embed(TABLE)
        gate, up = ops.linear(x, (SQUARE,)), ops.linear(x, (SQUARE_TOO,))
        h = ops.gated_activation(gate, up, "silu")
        return ops.add(ops.linear(h, (SQUARE,)), h)

    once = fuse_quantize(lower(fused(lambda ops: _mlp(ops, ops.embed(TABLE))), all_integer))
    assert kernels(once) == ["embed", "quantize", "linear_gated_quantize", "linear"]
    twice = fuse_quantize(lower(fused(forward_twice), all_integer))
    assert "linear_gated_quantize" not in kernels(twice)


@pytest.mark.parametrize(("head_dim", "is_fused"), [(32, True), (16, False)])
def test_attention_and_quantise_become_one_for_heads_of_whole_groups(
    head_dim: int, is_fused: bool
) -> None:
    heads = 64 // head_dim
    spec = AttentionSpec(num_heads=heads, num_kv_heads=heads, head_dim=head_dim, scale=1.0)

    def forward(ops: RecordingOps) -> AbstractValue:
        return ops.linear(ops.attention(ops.embed(TABLE), 0, spec), (SQUARE,))

    got = kernels(fuse_quantize(lower(fused(forward), all_integer)))
    apart = ["embed", "attention", "quantize", "linear"]
    assert got == (["embed", "attention_quantize", "linear"] if is_fused else apart)
