"""Verdicts: symmetric, blind to noise, not blind to what stands out of it."""

from __future__ import annotations

from dataclasses import replace

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from octavo.bench.compare import compare_metrics, compare_reports, machine_differences
from tests.bench.reports import MACHINE, metric, report

RUNS = st.lists(st.floats(1, 1e6), min_size=1, max_size=12)
OPPOSITE = {"better": "worse", "worse": "better", "no difference": "no difference"}


@given(RUNS)
def test_a_report_does_not_differ_from_itself(samples: list[float]) -> None:
    assert compare_metrics(metric(samples), metric(samples)).verdict == "no difference"


@given(RUNS, RUNS)
def test_turning_the_two_around_turns_the_verdict_around(a: list[float], b: list[float]) -> None:
    there, back = compare_metrics(metric(a), metric(b)), compare_metrics(metric(b), metric(a))
    assert back.verdict == OPPOSITE[there.verdict]
    assert back.noise == there.noise


@given(RUNS, RUNS)
def test_what_is_better_for_rates_is_worse_for_times(a: list[float], b: list[float]) -> None:
    rate = compare_metrics(metric(a), metric(b))
    time = compare_metrics(metric(a, "lower"), metric(b, "lower"))
    assert time.verdict == OPPOSITE[rate.verdict]


@given(st.floats(1, 1e6), st.floats(0.0, 0.02), st.integers(2, 12))
def test_far_more_than_the_spread_is_a_difference(base: float, spread: float, count: int) -> None:
    samples = [base * (1 + spread * (i % 3)) for i in range(count)]
    faster = [2 * value for value in samples]
    assert compare_metrics(metric(samples), metric(faster)).verdict == "better"


@given(st.floats(1, 1e6), st.integers(2, 12))
def test_what_two_processes_differ_by_anyway_is_no_difference(base: float, count: int) -> None:
    runs, others = metric([base] * count), metric([base * 1.029] * count)
    assert compare_metrics(runs, others).verdict == "no difference"
    assert compare_metrics(runs, others, least_noise=0.02).verdict == "better"


def test_one_run_each_proves_nothing() -> None:
    assert compare_metrics(metric([1.0]), metric([100.0])).verdict == "no difference"


def test_a_wide_spread_hides_a_difference_that_a_narrow_one_shows() -> None:
    narrow = compare_metrics(metric([99, 100, 101]), metric([109, 110, 111]))
    wide = compare_metrics(metric([80, 100, 120]), metric([90, 110, 130]))
    assert (narrow.verdict, wide.verdict) == ("better", "no difference")


def test_reports_are_compared_where_they_agree_on_name_and_unit() -> None:
    first = report(metric([1, 1], name="a"), metric([1, 1], name="b"))
    second = report(metric([2, 2], name="b"), metric([1, 1], name="c"))
    (difference,) = compare_reports(first, second)
    assert (difference.name, difference.ratio, difference.verdict) == ("b", 2.0, "better")


def test_unlike_machines_and_settings_are_told() -> None:
    first = report()
    machine = msgspec.structs.replace(MACHINE, threads=4)
    second = msgspec.structs.replace(first, machine=machine, settings={"dtype": "float32"})
    lines = machine_differences(first, second)
    assert "threads: 2 -> 4" in lines
    assert "dtype: auto -> float32" in lines
    assert machine_differences(first, first) == []


def test_zero_medians_do_not_divide() -> None:
    difference = compare_metrics(metric([0.0, 0.0]), metric([0.0, 0.0]))
    assert difference.verdict == "no difference"
    assert replace(difference, second=1.0).ratio > 1
