"""Root-mean-square normalisation kernels against float64."""

from __future__ import annotations

import numpy as np
import pytest

from octavo.kernels import _native
from tests.kernels.harness import F32, F64, LEVELS, OneKernel, StepArrays, vector
from tests.kernels.matrices import panel_sizes

EPS = 1e-5
# Multiples of 64 and of 16, and widths that leave part of a vector over.
WIDTHS = [576, 64, 48, 16, 8, 100, 2049]
ROWS = [1, 5, 40]

pytestmark = pytest.mark.parametrize("level", LEVELS)


def rng() -> np.random.Generator:
    return np.random.default_rng(3)


def expected_norm(x: F32, weight: F32, eps: float = EPS) -> F64:
    x64 = x.astype(np.float64)
    result: F64 = x64 / np.sqrt((x64**2).mean(axis=-1, keepdims=True) + eps) * weight
    return result


def operands(width: int, rows: int) -> tuple[F32, F32]:
    random = rng()
    return random.standard_normal((rows, width), np.float32), random.standard_normal(
        width, np.float32
    )


def rms_norm(level: str, x: F32, weight: F32, eps: float = EPS, num_threads: int = 1) -> F32:
    kernel = OneKernel(level, num_threads)
    source, out = kernel.value(x), kernel.output(x.shape[1])
    step = StepArrays(len(x))
    kernel.run("rms_norm", [source, vector(weight)], [out], floats=[eps], step=step)
    return kernel.read(out, len(x))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("rows", ROWS)
def test_rms_norm_matches_float64(level: str, width: int, rows: int) -> None:
    x, weight = operands(width, rows)
    result = rms_norm(level, x, weight)
    np.testing.assert_allclose(result, expected_norm(x, weight), rtol=1e-6, atol=1e-12)


def test_eps_keeps_a_row_of_zeros_finite(level: str) -> None:
    assert (rms_norm(level, np.zeros((2, 64), np.float32), np.ones(64, np.float32)) == 0).all()


@pytest.mark.parametrize("magnitude", [1e-12, 1e12])
def test_rows_of_any_magnitude(level: str, magnitude: float) -> None:
    x, weight = operands(576, 3)
    x *= np.float32(magnitude)
    result = rms_norm(level, x, weight, eps=1e-30)
    np.testing.assert_allclose(result, expected_norm(x, weight, 1e-30), rtol=1e-6)


def test_each_row_equals_the_row_alone_and_threads_do_not_matter(level: str) -> None:
    x, weight = operands(100, 40)
    together = rms_norm(level, x, weight, num_threads=2)
    for row, result in zip(x, together, strict=True):
        np.testing.assert_array_equal(rms_norm(level, row[None], weight)[0], result)


@pytest.mark.parametrize("width", [576, 100])
def test_rms_norm_add_adds_in_place(level: str, width: int) -> None:
    x, weight = operands(width, 7)
    y = rng().standard_normal((7, width), np.float32)
    kernel = OneKernel(level)
    source, target = kernel.value(x), kernel.value(y)
    step = StepArrays(7)
    kernel.run("rms_norm_add", [source, vector(weight)], [target], floats=[EPS], step=step)
    result = kernel.read(target, 7)
    np.testing.assert_allclose(result, y + expected_norm(x, weight), rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(kernel.read(source, 7), x)


@pytest.mark.parametrize("dim", [64, 24])
def test_head_rms_norm_normalises_each_head_in_place(level: str, dim: int) -> None:
    x, weight = operands(5 * dim, 9)[0], operands(dim, 1)[1]
    kernel = OneKernel(level)
    source = kernel.value(x)
    step = StepArrays(9)
    kernel.run("head_rms_norm", [source, vector(weight)], [source], [5, dim], [EPS], step=step)
    expected = expected_norm(x.reshape(9, 5, dim), weight).reshape(9, -1)
    np.testing.assert_allclose(kernel.read(source, 9), expected, rtol=1e-6, atol=1e-12)


def quantized(level: str, x: F32, weight: F32 | None, num_threads: int) -> bytes:
    """The panels of `quantize` of x, or of `rms_norm_quantize` when there is a weight."""
    kernel = OneKernel(level, num_threads)
    source, out = kernel.value(x), kernel.q8(x.shape[1])
    step = StepArrays(len(x))
    if weight is None:
        kernel.run("quantize", [source], [out], step=step)
    else:
        inputs = [source, vector(weight)]
        kernel.run("rms_norm_quantize", inputs, [out], floats=[EPS], step=step)
    whole = kernel.read_bytes(out, len(x)).reshape(-1)
    # Panels are dense; what is behind each, up to its rows' strides, is not written.
    used = bytearray()
    start = 0
    for size in panel_sizes(len(x), _native.row_block(level)):
        used += whole[start : start + size * (x.shape[1] // 32 * 48)].tobytes()
        start += size * _native.activation_row_bytes(x.shape[1])
    return bytes(used)


@pytest.mark.parametrize("width", [576, 64, 96])
@pytest.mark.parametrize("rows", [1, 5, 13, 40])
@pytest.mark.parametrize("num_threads", [1, 2])
def test_rms_norm_quantize_equals_norm_then_quantize(
    level: str, width: int, rows: int, num_threads: int
) -> None:
    x, weight = operands(width, rows)
    separate = quantized(level, rms_norm(level, x, weight), None, 1)
    assert quantized(level, x, weight, num_threads) == separate
