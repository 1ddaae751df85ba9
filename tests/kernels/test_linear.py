"""Matrix products of every weight format on every instruction-set level."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest

from octavo.kernels import RowKind, _native
from tests.kernels import matrices
from tests.kernels.harness import F32, F64, LEVELS, NONE, OneKernel, StepArrays, columns, vector

ROW_COUNTS = [1, 2, 3, 5, 8, 11, 12, 13, 24, 25, 64]
MARGIN = 3  # columns around the output view, which must stay as they were


def activations(kernel: OneKernel, x: F32, packed: _native.PackedMatrix) -> _native.OperandSpec:
    """x as the operand that the format takes; q8 values are made by the quantize kernel."""
    source = kernel.value(x)
    if packed.format in matrices.FLOAT_FORMATS:
        return source
    out = kernel.q8(x.shape[1])
    kernel.before.append(("quantize", RowKind.TOKENS, [source], [out], [], []))
    return out


def multiplied(level: str, x: F32, packed: _native.PackedMatrix) -> tuple[F64, F64]:
    """x W^T in float64 with the activations that the kernel sees, and the sum of magnitudes."""
    if packed.format not in matrices.FLOAT_FORMATS:
        a = matrices.rounded(x)
    elif packed.format == "BF16" and level in ("avx512_bf16", "amx"):
        a = matrices.dequantized("BF16", matrices.as_type("BF16", x)).astype(np.float64)
    else:
        a = x.astype(np.float64)
    w = packed.unpack().astype(np.float64)
    return a @ w.T, np.abs(a) @ np.abs(w).T


def run_linear(
    level: str,
    x: F32,
    segments: Sequence[tuple[_native.PackedMatrix, F32 | None]],
    *,
    residual: F32 | None = None,
    num_threads: int = 1,
) -> F32:
    kernel = OneKernel(level, num_threads)
    inputs = [activations(kernel, x, segments[0][0])]
    for packed, bias in segments:
        inputs += [matrices.matrix(packed), NONE if bias is None else vector(bias)]
    width = sum(packed.shape[0] for packed, _ in segments)
    before = np.full((len(x), width + 2 * MARGIN), np.nan, np.float32)
    if residual is not None:
        before[:, MARGIN:-MARGIN] = residual
    whole = kernel.value(before)
    out = columns(whole, MARGIN, width)
    mode = 0 if residual is None else 1
    kernel.run("linear", inputs, [out], [len(segments), mode], step=StepArrays(len(x)))
    after = kernel.read(whole, len(x))
    assert np.isnan(after[:, :MARGIN]).all()
    assert np.isnan(after[:, -MARGIN:]).all()
    return after[:, MARGIN:-MARGIN]


def run_gated(
    level: str, x: F32, gate: _native.PackedMatrix, up: _native.PackedMatrix, act: int, threads: int
) -> F32:
    kernel = OneKernel(level, threads)
    inputs = [activations(kernel, x, gate), matrices.matrix(gate), matrices.matrix(up)]
    width = gate.shape[0]
    whole = kernel.output(width + MARGIN)
    kernel.run("linear_gated", inputs, [columns(whole, 0, width)], [act], step=StepArrays(len(x)))
    after = kernel.read(whole, len(x))
    assert np.isnan(after[:, width:]).all()
    return after[:, :width]


def normal(rng: np.random.Generator, *shape: int) -> F32:
    return rng.standard_normal(shape).astype(np.float32)


def random_matrix(
    rng: np.random.Generator, type_name: str, rows: int, num_columns: int
) -> _native.PackedMatrix:
    data = matrices.random_tensor(rng, type_name, rows, num_columns)
    return matrices.pack(type_name, data, rows, num_columns)


def assert_close(actual: F32, expected: F64, magnitude: F64) -> None:
    """Within a few roundings of float32, relative to the sum of the magnitudes of the terms."""
    assert (np.abs(actual - expected) <= 2e-6 * magnitude + 1e-30).all()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("type_name", matrices.FORMATS)
def test_every_row_count_multiplies_and_a_row_never_depends_on_it(
    level: str, type_name: str
) -> None:
    rng = np.random.default_rng(7)
    packed = random_matrix(rng, type_name, 77, 768)
    x = normal(rng, max(ROW_COUNTS), 768)
    whole = run_linear(level, x, [(packed, None)])
    assert_close(whole, *multiplied(level, x, packed))
    for rows in ROW_COUNTS:
        for threads in (1, 2):
            some = run_linear(level, x[-rows:], [(packed, None)], num_threads=threads)
            assert (some == whole[-rows:]).all()
    for i in range(len(x)):
        assert (run_linear(level, x[i : i + 1], [(packed, None)]) == whole[i]).all()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("type_name", matrices.FLOAT_FORMATS)
def test_rows_beyond_what_a_worker_keeps_packed_never_depend_on_each_other(
    level: str, type_name: str
) -> None:
    """96 rows of 64 KiB are several blocks of panels for one worker, and for each of two."""
    rng = np.random.default_rng(11)
    packed = random_matrix(rng, type_name, 33, 16384)
    x = normal(rng, 96, 16384)
    whole = run_linear(level, x, [(packed, None)])
    assert_close(whole, *multiplied(level, x, packed))
    assert (run_linear(level, x, [(packed, None)], num_threads=2) == whole).all()
    for i in (0, 50, 95):
        assert (run_linear(level, x[i : i + 1], [(packed, None)]) == whole[i]).all()


@pytest.mark.skipif("amx" not in LEVELS, reason="the processor has no tile registers")
@pytest.mark.parametrize("type_name", matrices.INTEGER_FORMATS)
@pytest.mark.parametrize("rows", [8, 15, 16, 33])
def test_tile_registers_give_the_bits_of_vectors(type_name: str, rows: int) -> None:
    rng = np.random.default_rng(rows)
    packed = random_matrix(rng, type_name, 33, 1280)
    x = normal(rng, rows, 1280)
    by_registers, by_vectors = (
        run_linear(level, x, [(packed, None)]) for level in ("amx", "avx512_vnni")
    )
    assert (by_registers == by_vectors).all()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("type_name", matrices.LEGACY_FORMATS)
@pytest.mark.parametrize("num_columns", [32, 96, 160])
@pytest.mark.parametrize("num_outputs", [1, 16, 33])
def test_few_and_odd_groups_and_outputs(
    level: str, type_name: str, num_columns: int, num_outputs: int
) -> None:
    rng = np.random.default_rng(num_columns)
    packed = random_matrix(rng, type_name, num_outputs, num_columns)
    x = normal(rng, 3, num_columns)
    assert_close(run_linear(level, x, [(packed, None)]), *multiplied(level, x, packed))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("type_name", matrices.FLOAT_FORMATS)
@pytest.mark.parametrize("num_columns", [1, 13, 130])
def test_float_weights_of_any_width(level: str, type_name: str, num_columns: int) -> None:
    rng = np.random.default_rng(num_columns)
    packed = random_matrix(rng, type_name, 21, num_columns)
    x = normal(rng, 14, num_columns)
    assert_close(run_linear(level, x, [(packed, None)]), *multiplied(level, x, packed))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("type_name", matrices.INTEGER_FORMATS)
@pytest.mark.parametrize("filling", [0x00, 0x80, 0xFF])
def test_integer_extremes_are_exact(level: str, type_name: str, filling: int) -> None:
    """All bits of the codes equal, activations of +-127 with scale 1: every sum is an integer."""
    data = matrices.random_tensor(np.random.default_rng(0), type_name, 16, 256, scale=1.0)
    scales = {"Q4_K": 16, "Q5_K": 16, "Q4_1": 4, "Q5_1": 4, "Q6_K": 0}.get(type_name, 2)
    block = data.shape[1] // (1 if type_name in matrices.K_FORMATS else 8)
    blocks = data.reshape(-1, block)
    if type_name == "Q6_K":
        blocks[:, :192] = filling
        blocks[:, 192:208] = 1
    else:
        blocks[:, scales:] = filling
        if type_name in matrices.K_FORMATS:
            blocks[:, 4:16] = 1
    packed = matrices.pack(type_name, data, 16, 256)
    weights = packed.unpack().astype(np.float64)
    assert (weights == np.rint(weights)).all()
    x = np.full((7, 256), 127, np.float32)
    x[1] = -127
    x[2, ::2] = -127
    x[3, 128:] = -127
    x[4] = np.random.default_rng(1).choice([-127, 127], 256)
    x[5, np.arange(256) % 4 < 2] = -127
    x[6, np.arange(256) % 32 < 16] = -127
    expected = x.astype(np.float64) @ weights.T
    assert np.abs(expected).max() < 2**24
    assert (run_linear(level, x, [(packed, None)]) == expected).all()
    many = run_linear(level, np.tile(x, (6, 1)), [(packed, None)])
    assert (many == np.tile(expected, (6, 1))).all()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("rows", [1, 42])
@pytest.mark.parametrize(("scale", "code"), [(0x80, 0x00), (0x7F, 0x00), (0x80, 0xFF)])
def test_the_largest_scales_of_halves_are_exact(
    level: str, rows: int, scale: int, code: int
) -> None:
    """One group of Q6_K with scale 1 over it: its sum is an integer just below 2^24."""
    data = matrices.random_tensor(np.random.default_rng(0), "Q6_K", 16, 256, scale=1.0)
    data[:, :192] = code
    data[:, 192:208] = scale
    packed = matrices.pack("Q6_K", data, 16, 256)
    x = np.zeros((rows, 256), np.float32)
    x[:, 32:64] = 127
    x[rows // 2, 32:64] = -127
    expected = x.astype(np.float64) @ packed.unpack().astype(np.float64).T
    assert 2**22 < np.abs(expected).max() < 2**24
    assert (run_linear(level, x, [(packed, None)]) == expected).all()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("rows", [1, 26])
def test_segments_stand_side_by_side(level: str, threads: int, rows: int) -> None:
    rng = np.random.default_rng(rows)
    shapes = [("Q4_K", 37), ("Q6_K", 16), ("Q8_0", 5)]
    packed = [random_matrix(rng, name, outputs, 256) for name, outputs in shapes]
    biases = [normal(rng, 37), None, normal(rng, 5)]
    x = normal(rng, rows, 256)
    together = run_linear(level, x, list(zip(packed, biases, strict=True)), num_threads=threads)
    alone = [run_linear(level, x, [(m, b)]) for m, b in zip(packed, biases, strict=True)]
    assert (together == np.concatenate(alone, axis=1)).all()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("type_name", ["F16", "Q5_0"])
def test_bias_and_residual_are_added(level: str, type_name: str) -> None:
    rng = np.random.default_rng(8)
    packed = random_matrix(rng, type_name, 41, 64)
    x, bias, residual = normal(rng, 15, 64), normal(rng, 41), normal(rng, 15, 41)
    plain = run_linear(level, x, [(packed, None)])
    assert (run_linear(level, x, [(packed, bias)]) == plain + bias).all()
    added = run_linear(level, x, [(packed, bias)], residual=residual)
    assert (added == residual + (plain + bias)).all()


def activated(gate: F64, act: int) -> F64:
    cubic = np.sqrt(2 / np.pi) * (gate + 0.044715 * gate**3)
    result: F64 = 0.5 * gate * (1 + np.tanh(cubic if act == 1 else gate / 2))
    return result


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("act", [0, 1])
@pytest.mark.parametrize(("gate_type", "up_type"), [("Q4_K", "Q6_K"), ("F32", "BF16")])
def test_gated_products(level: str, act: int, gate_type: str, up_type: str) -> None:
    rng = np.random.default_rng(9)
    gate, up = (random_matrix(rng, name, 53, 256) for name in (gate_type, up_type))
    x = normal(rng, 64, 256)
    whole = run_gated(level, x, gate, up, act, 1)
    gates, ups = (run_linear(level, x, [(m, None)]).astype(np.float64) for m in (gate, up))
    expected = activated(gates, act) * ups
    assert (np.abs(whole - expected) <= 2e-6 * np.abs(gates * ups) + 1e-7).all()
    for rows in (1, 13):
        assert (run_gated(level, x[:rows], gate, up, act, 2) == whole[:rows]).all()


def gated_quantized(
    level: str, x: F32, gate: _native.PackedMatrix, up: _native.PackedMatrix, *, fused: bool
) -> npt.NDArray[np.uint8]:
    """The bytes of quantize(linear_gated(x)), made by one kernel or by two."""
    kernel = OneKernel(level, num_threads=2)
    inputs = [activations(kernel, x, gate), matrices.matrix(gate), matrices.matrix(up)]
    out, step = kernel.q8(gate.shape[0]), StepArrays(len(x))
    if fused:
        kernel.run("linear_gated_quantize", inputs, [out], [0], step=step)
    else:
        between = kernel.output(gate.shape[0])
        kernel.before.append(("linear_gated", RowKind.TOKENS, inputs, [between], [0], []))
        kernel.run("quantize", [between], [out], step=step)
    return kernel.read_bytes(out, len(x))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("type_name", ["Q4_1", "F32"])
def test_gated_products_quantised_at_once_or_later_are_the_same(level: str, type_name: str) -> None:
    rng = np.random.default_rng(12)
    gate, up = (random_matrix(rng, type_name, 224, 128) for _ in range(2))
    for rows in ROW_COUNTS:
        x = normal(rng, rows, 128)
        x[rows // 2, 3] = np.nan if rows > 4 else 0
        at_once, later = (gated_quantized(level, x, gate, up, fused=f) for f in (True, False))
        assert np.array_equal(at_once, later)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("act", [0, 1])
def test_gates_saturate_without_nan(level: str, act: int) -> None:
    weights = np.array([[1e4], [-1e4], [100], [-100], [1e18], [-1e18]], np.float32)
    gate = matrices.pack("F32", weights.view(np.uint8), 6, 1)
    up = matrices.pack("F32", np.ones((6, 1), np.float32).view(np.uint8), 6, 1)
    result = run_gated(level, np.ones((1, 1), np.float32), gate, up, act, 1)
    assert (result[0, ::2] == weights[::2, 0]).all()
    assert (np.abs(result[0, 1::2]) <= 1e-30).all()


@pytest.mark.parametrize("level", LEVELS)
def test_a_row_with_nan_spoils_itself_alone(level: str) -> None:
    rng = np.random.default_rng(10)
    packed = random_matrix(rng, "Q4_0", 20, 64)
    x = normal(rng, 14, 64)
    whole = run_linear(level, x, [(packed, None)])
    x[5, 40] = np.nan
    spoiled = run_linear(level, x, [(packed, None)])
    assert np.isnan(spoiled[5]).all()
    assert (np.delete(spoiled, 5, axis=0) == np.delete(whole, 5, axis=0)).all()


@pytest.mark.parametrize("type_name", matrices.FORMATS)
def test_levels_agree_within_rounding(type_name: str) -> None:
    rng = np.random.default_rng(11)
    packed = random_matrix(rng, type_name, 32, 512)
    x = matrices.dequantized("BF16", matrices.as_type("BF16", normal(rng, 12, 512)))
    _, magnitude = multiplied(LEVELS[0], x, packed)
    first, *others = (run_linear(level, x, [(packed, None)]) for level in LEVELS)
    for other in others:
        assert (np.abs(first - other) <= 2e-6 * magnitude).all()


@pytest.mark.parametrize("type_name", ["Q4_0", "Q5_0", "Q8_0"])
def test_one_group_is_the_same_on_every_level(type_name: str) -> None:
    """Its integer sum is exact, and one product with the scales is rounded once."""
    rng = np.random.default_rng(13)
    packed = random_matrix(rng, type_name, 64, 32)
    x = normal(rng, 13, 32)
    first, *others = (run_linear(level, x, [(packed, None)]) for level in LEVELS)
    for other in others:
        assert (first == other).all()
