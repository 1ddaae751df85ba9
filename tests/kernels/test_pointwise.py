"""Kernels that treat every element, or every row, by itself, against float64."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from octavo.kernels import RowKind
from tests.kernels.harness import F32, F64, LEVELS, OneKernel, StepArrays

pytestmark = pytest.mark.parametrize("level", LEVELS)

WIDTHS = [1536, 16, 7, 5000]
# Both signs of everything from the smallest subnormal number to the greatest finite one.
EXTREMES = np.array(
    [
        s * m
        for m in [0, 1e-45, 1e-30, 1e-4, 0.1, 1, 5, 20, 88, 104, 1e4, 1e20, 3.4e38]
        for s in (1, -1)
    ],
    np.float32,
)


def random(rows: int, width: int, seed: int = 5) -> F32:
    return np.random.default_rng(seed).standard_normal((rows, width), np.float32) * 3


def silu(x: F64) -> F64:
    result: F64 = x * np.where(x < 0, np.exp(-np.abs(x)), 1) / (1 + np.exp(-np.abs(x)))
    return result


def gelu_tanh(x: F64) -> F64:
    z = np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)
    result: F64 = x * np.where(z < 0, np.exp(-2 * np.abs(z)), 1) / (1 + np.exp(-2 * np.abs(z)))
    return result


def gated(level: str, act: int, gate: F32, up: F32, num_threads: int = 1) -> F32:
    kernel = OneKernel(level, num_threads)
    inputs, out = [kernel.value(gate), kernel.value(up)], kernel.output(gate.shape[1])
    kernel.run("gated_activation", inputs, [out], [act], step=StepArrays(len(gate)))
    return kernel.read(out, len(gate))


ACTIVATIONS = [(0, silu), (1, gelu_tanh)]


@pytest.mark.parametrize(("act", "function"), ACTIVATIONS)
@pytest.mark.parametrize("width", WIDTHS)
def test_gated_activation_matches_float64(
    level: str, act: int, function: Callable[[F64], F64], width: int
) -> None:
    gate, up = random(3, width, 1), random(3, width, 2)
    expected = function(gate.astype(np.float64)) * up
    np.testing.assert_allclose(gated(level, act, gate, up), expected, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize(("act", "function"), ACTIVATIONS)
def test_gated_activation_is_safe_at_the_ends_of_float(
    level: str, act: int, function: Callable[[F64], F64]
) -> None:
    gate = EXTREMES[None]
    result = gated(level, act, gate, np.ones_like(gate))
    expected = function(gate.astype(np.float64))
    np.testing.assert_allclose(result, expected, rtol=2e-6, atol=1e-35)


@pytest.mark.parametrize("act", [0, 1])
def test_gated_activation_passes_nan_on(level: str, act: int) -> None:
    gate, up = random(1, 40, 1), random(1, 40, 2)
    gate[0, 3] = up[0, 35] = np.nan
    assert np.flatnonzero(np.isnan(gated(level, act, gate, up)[0])).tolist() == [3, 35]


def test_rows_and_threads_do_not_change_a_row(level: str) -> None:
    gate, up = random(9, 5000, 1), random(9, 5000, 2)
    together = gated(level, 1, gate, up, num_threads=2)
    for i in range(9):
        row = slice(i, i + 1)
        np.testing.assert_array_equal(gated(level, 1, gate[row], up[row])[0], together[i])


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("in_place", [False, True])
def test_add(level: str, width: int, in_place: bool) -> None:
    a, b = random(5, width, 1), random(5, width, 2)
    kernel = OneKernel(level, 2)
    left, right = kernel.value(a), kernel.value(b)
    out = left if in_place else kernel.output(width)
    kernel.run("add", [left, right], [out], step=StepArrays(5))
    np.testing.assert_array_equal(kernel.read(out, 5), a + b)


def softcap(level: str, x: F32, cap: float) -> F32:
    kernel = OneKernel(level, 2)
    value = kernel.value(x, RowKind.LOGITS)
    step = StepArrays(1, num_logit_rows=len(x))
    kernel.run("softcap", [value], [value], floats=[cap], step=step, rows=RowKind.LOGITS)
    return kernel.read(value, len(x))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("cap", [0.5, 30.0])
def test_softcap_matches_float64(level: str, width: int, cap: float) -> None:
    x = random(3, width) * 10
    expected = cap * np.tanh(x.astype(np.float64) / cap)
    np.testing.assert_allclose(softcap(level, x, cap), expected, rtol=5e-7)


def test_softcap_at_the_ends_of_float(level: str) -> None:
    x = np.append(EXTREMES, np.array([np.inf, -np.inf, np.nan], np.float32))[None]
    expected = 30 * np.tanh(x.astype(np.float64) / 30)
    np.testing.assert_allclose(softcap(level, x, 30.0), expected, rtol=5e-7, atol=1e-40)


@pytest.mark.parametrize("wanted", [[0], [6], [2, 2, 5], list(range(7))])
def test_gather_rows_takes_the_rows_that_need_logits(level: str, wanted: list[int]) -> None:
    x = random(7, 33)
    kernel = OneKernel(level, 2)
    source, out = kernel.value(x), kernel.output(33, RowKind.LOGITS)
    step = StepArrays(7, num_logit_rows=len(wanted), logit_rows=np.array(wanted, np.int32))
    kernel.run("gather_rows", [source], [out], step=step, rows=RowKind.LOGITS)
    np.testing.assert_array_equal(kernel.read(out, len(wanted)), x[wanted])
