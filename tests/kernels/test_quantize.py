"""Rounding activations to int8 panels: the layout, the values, and what is not a number."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from octavo.kernels import _native
from tests.kernels.harness import F32, I32, LEVELS, OneKernel, StepArrays
from tests.kernels.matrices import GROUP, panel_sizes, quantized


def run_quantize(
    level: str, x: F32, num_threads: int = 1
) -> tuple[npt.NDArray[np.int8], F32, F32, I32]:
    """Values [rows, groups, 32], scales, sums [rows, groups], sums of halves [rows, groups, 2]."""
    rows, columns = x.shape
    groups = -(-columns // GROUP)
    kernel = OneKernel(level, num_threads)
    source, out = kernel.value(x), kernel.q8(columns)
    kernel.run("quantize", [source], [out], step=StepArrays(rows))
    memory = kernel.read_bytes(out, rows)
    parts = []
    first = 0
    for size in panel_sizes(rows, _native.row_block(level)):
        panel = memory[first : first + size].reshape(-1)[: groups * 48 * size]
        parts.append(split_panel(level, panel.reshape(groups, 48 * size), size))
        first += size
    values, scales, sums, half_sums = (np.concatenate(p) for p in zip(*parts, strict=True))
    return values, scales, sums, half_sums


def split_panel(
    level: str, groups: npt.NDArray[np.uint8], size: int
) -> tuple[npt.NDArray[np.int8], F32, F32, I32]:
    count = len(groups)
    quads = groups[:, : 32 * size].copy().view(np.int8)
    if level == "amx":  # a row's quads together
        values = quads.reshape(count, size, GROUP).transpose(1, 0, 2)
    else:
        values = quads.reshape(count, 8, size, 4).transpose(2, 0, 1, 3).reshape(size, count, GROUP)
    fields = groups[:, 32 * size :].copy().reshape(count, 4, size, 4)
    return (
        values,
        np.ascontiguousarray(fields[:, 0].view(np.float32)[..., 0].T),
        np.ascontiguousarray(fields[:, 1].view(np.float32)[..., 0].T),
        half_sums(level, fields[:, 2:].transpose(2, 0, 1, 3), values),
    )


def half_sums(level: str, minus: npt.NDArray[np.uint8], values: npt.NDArray[np.int8]) -> I32:
    """The last two fields, [rows, groups, 2] of four bytes, as the sums of both halves."""
    if level != "avx2":
        sums: I32 = -minus.copy().view(np.int32)[..., 0]
        return sums
    # Of pairs: of all values, and of the last half.
    pairs = -minus.copy().view(np.int16).astype(np.int32)
    pairs[..., 0, :] -= pairs[..., 1, :]
    expected = values.reshape(*values.shape[:2], 2, 4, 2, 2).sum(axis=(3, 5), dtype=np.int32)
    assert (pairs == expected).all()
    of_halves: I32 = pairs.sum(axis=-1, dtype=np.int32)
    return of_halves


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("rows", [1, 4, 5, 13, 24, 25])
@pytest.mark.parametrize("columns", [32, 576, 1056])
def test_values_scales_and_sums_of_every_row(level: str, rows: int, columns: int) -> None:
    x = np.random.default_rng(rows + columns).standard_normal((rows, columns)).astype(np.float32)
    values, scales, sums, half_sums = run_quantize(level, x)
    codes, expected_scales = quantized(x)
    halves = codes.reshape(rows, -1, 2, 16).sum(axis=3, dtype=np.int32)
    assert (values == codes).all()
    assert (scales == expected_scales).all()
    assert (half_sums == halves).all()
    assert (sums == expected_scales * halves.sum(axis=2).astype(np.float32)).all()


@pytest.mark.parametrize("level", LEVELS)
def test_two_workers_write_what_one_does(level: str) -> None:
    x = np.random.default_rng(0).standard_normal((29, 2080)).astype(np.float32)
    alone, shared = run_quantize(level, x), run_quantize(level, x, 2)
    for part in range(4):
        assert np.array_equal(alone[part], shared[part])


@pytest.mark.parametrize("level", LEVELS)
def test_zeros_and_the_tiniest_numbers_become_scale_zero(level: str) -> None:
    x = np.zeros((2, 64), np.float32)
    x[1, 40] = 1e-40
    values, scales, sums, half_sums = run_quantize(level, x)
    assert not values.any()
    assert not scales.any()
    assert not sums.any()
    assert not half_sums.any()


@pytest.mark.parametrize("level", LEVELS)
def test_the_largest_floats_are_quantised(level: str) -> None:
    x = np.full((1, 32), 3.4e38, np.float32)
    x[0, ::2] *= -1
    values, scales, _, _ = run_quantize(level, x)
    assert (values[0, 0] == np.tile([-127, 127], 16)).all()
    assert np.isfinite(scales).all()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("column", [32, 47, 48, 63])
def test_what_is_not_finite_spoils_its_group_and_no_other(
    level: str, bad: float, column: int
) -> None:
    x = np.ones((3, 96), np.float32)
    x[1, column] = bad
    values, scales, sums, half_sums = run_quantize(level, x)
    assert np.isnan(scales[1, 1])
    assert np.isnan(sums[1, 1])
    assert not values[1, 1].any()
    assert not half_sums[1, 1].any()
    spoiled = np.zeros((3, 3), bool)
    spoiled[1, 1] = True
    assert (values[~spoiled] == 127).all()
    assert (scales[~spoiled] == np.float32(1) / np.float32(127)).all()
