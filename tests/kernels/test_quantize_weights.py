"""Float tensors rounded to the quantised types while they are packed."""

from __future__ import annotations

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType, quants

from tests.kernels import matrices
from tests.kernels.harness import F32, LEVELS

TARGETS = ["Q8_0", "Q4_0", "Q4_1", "Q4_K"]

# Root mean square of the error over that of normally distributed values.
MOST_ERROR = {"Q8_0": 0.0055, "Q4_0": 0.095, "Q4_1": 0.073, "Q4_K": 0.077}


def normal(seed: int, rows: int, columns: int) -> F32:
    return np.random.default_rng(seed).standard_normal((rows, columns)).astype(np.float32)


def rounded(values: F32, target: str, level: str | None = None) -> F32:
    rows, columns = values.shape
    data = values.view(np.uint8)
    return matrices.pack("F32", data, rows, columns, target=target, level=level).unpack()


def relative_error(values: F32, target: str) -> float:
    return float(np.sqrt(np.mean((rounded(values, target) - values) ** 2) / np.mean(values**2)))


@pytest.mark.parametrize("target", ["Q8_0", "Q4_0"])
@pytest.mark.parametrize("scale", [1e-6, 0.02, 1e3])
def test_values_are_those_of_ggmls_reference_quantiser(target: str, scale: float) -> None:
    values = normal(1, 37, 512) * np.float32(scale)
    values[3, :64] = 0
    values[4, :64] = 0.5 * scale  # ties, and all of the largest magnitude
    values[4, 1:64:2] = -0.5 * scale
    kind = GGMLQuantizationType[target]
    assert (rounded(values, target) == quants.dequantize(quants.quantize(values, kind), kind)).all()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("target", [*TARGETS, "F16", "BF16"])
def test_every_level_rounds_to_the_same_bits(level: str, target: str) -> None:
    # Many: one sum that is rounded otherwise shows in one of some thousand groups.
    values = normal(8, 2000, 768) * np.float32(0.02)
    values[0, :64] = 0
    values[1, :64] = [0.01, -0.01] * 32  # ties, and two of the largest magnitude
    values[2] = np.abs(values[2])
    values[3] *= np.float32(1e-6)
    assert (rounded(values, target, level) == rounded(values, target, "scalar")).all()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("target", ["F16", "BF16"])
@pytest.mark.parametrize("columns", [1, 37, 64])
def test_halves_are_those_of_the_gguf_package(level: str, target: str, columns: int) -> None:
    values = normal(9, 18, columns)
    values[3] *= np.float32(1e-7)  # subnormal in float16
    expected = matrices.dequantized(target, matrices.as_type(target, values))
    assert (rounded(values, target, level) == expected).all()


@pytest.mark.parametrize("source", ["F16", "BF16"])
@pytest.mark.parametrize("target", TARGETS)
def test_halves_are_rounded_as_the_floats_that_they_are(source: str, target: str) -> None:
    data = matrices.as_type(source, normal(2, 20, 256))
    packed = matrices.pack(source, data, 20, 256, target=target)
    assert packed.format == target
    assert (packed.unpack() == rounded(matrices.dequantized(source, data), target)).all()


@pytest.mark.parametrize("target", TARGETS)
def test_rows_are_rounded_in_the_order_asked_for(target: str) -> None:
    values = normal(3, 40, 256)
    order = np.random.default_rng(0).permutation(40).astype(np.int32)
    packed = matrices.pack("F32", values.view(np.uint8), 40, 256, target=target, row_order=order)
    assert (packed.unpack() == rounded(values, target)[order]).all()


@pytest.mark.parametrize("target", TARGETS)
def test_the_error_is_bounded(target: str) -> None:
    assert relative_error(normal(4, 256, 1024), target) <= MOST_ERROR[target]


@pytest.mark.parametrize("target", ["Q4_1", "Q4_K"])
def test_the_search_beats_the_range_of_the_values(target: str) -> None:
    """ggml's Q4_1 lays its codes over the whole range, with fp16 scales; Q4_K has six bits."""
    values = normal(5, 64, 1024)
    kind = GGMLQuantizationType.Q4_1
    plain = quants.dequantize(quants.quantize(values, kind), kind)
    assert relative_error(values, target) < np.sqrt(np.mean((plain - values) ** 2))


@pytest.mark.parametrize("target", TARGETS)
def test_extremes_keep_to_their_groups(target: str) -> None:
    """Groups of zeros, of one value, of one outlier; the others of their block stay finite."""
    values = normal(6, 4, 512)
    values[0, :256] = 0
    values[1, :256] = 3.0
    values[2, 5] = 1e4
    result = rounded(values, target)
    assert (result[0, :256] == 0).all()
    assert np.abs(result[1, :256] - 3).max() <= 3 / 60
    assert abs(result[2, 5] / 1e4 - 1) <= 0.01
    assert np.isfinite(result).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("target", TARGETS)
def test_a_value_that_is_no_number_shows(target: str, bad: float) -> None:
    values = normal(7, 2, 512)
    values[0, 40] = bad
    result = rounded(values, target)
    block = max(32, gguf.GGML_QUANT_SIZES[GGMLQuantizationType[target]][0])
    first = 40 // block * block
    assert np.isnan(result[0, first : first + block]).all()
    assert np.isfinite(np.delete(result[0], slice(first, first + block))).all()
    assert np.isfinite(result[1]).all()
