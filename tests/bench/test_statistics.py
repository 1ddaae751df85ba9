"""Order statistics against numpy, and what noise means."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.bench.statistics import median_noise, percentile, summarise

SAMPLES = st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=50)


@given(SAMPLES)
def test_a_summary_agrees_with_numpy(samples: list[float]) -> None:
    summary = summarise(samples)
    shown = (summary.median, summary.p90, summary.p99, summary.mean, summary.deviation)
    wanted = (*np.percentile(samples, [50, 90, 99]), np.mean(samples), np.std(samples))
    assert shown == pytest.approx(wanted, rel=1e-9, abs=1e-3)
    assert (summary.least, summary.most) == (min(samples), max(samples))


@given(SAMPLES, st.floats(0, 100), st.floats(0, 100))
def test_percentiles_rise(samples: list[float], low: float, high: float) -> None:
    ordered = sorted(samples)
    low, high = sorted((low, high))
    # Interpolation rounds, so that equal neighbours may differ in the last bit.
    tolerance = 1e-9 * max(1.0, abs(ordered[0]), abs(ordered[-1]))
    assert percentile(ordered, low) <= percentile(ordered, high) + tolerance


def test_no_samples_have_no_summary() -> None:
    with pytest.raises(ValueError, match="no samples"):
        summarise([])


def test_one_run_says_nothing_about_noise() -> None:
    assert median_noise([3.0]) == math.inf


@given(st.floats(-1e6, 1e6), st.integers(2, 20))
def test_equal_runs_have_no_noise(value: float, count: int) -> None:
    assert median_noise([value] * count) == pytest.approx(0.0, abs=1e-6)


def test_more_runs_of_the_same_spread_make_less_noise() -> None:
    few, many = [1.0, 2.0, 3.0, 4.0, 5.0], [1.0, 2.0, 3.0, 4.0, 5.0] * 10
    assert median_noise(many) < median_noise(few)


def test_one_outlier_makes_little_noise() -> None:
    steady = [10.0, 10.1, 9.9, 10.0, 10.1, 9.9, 10.0, 10.1, 9.9]
    assert median_noise([*steady, 1000.0]) < 0.2
