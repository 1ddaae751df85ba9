"""A profile fitted to measured steps gives them back, and reads what it wrote."""

from __future__ import annotations

import msgspec
import pytest

from octavo.bench.fingerprint import fingerprint
from octavo.bench.report import Metric, Report
from octavo.core.step_load import StepLoad
from octavo.errors import ConfigError
from octavo.simulate.from_report import fit_report
from octavo.simulate.measured import (
    LEAST_STEP_SECONDS,
    MeasuredTimes,
    Profile,
    Sample,
    fit,
    profile_from_json,
    profile_to_json,
)

TRUTH = Profile(
    model="m",
    machine="x",
    knots=[(1, 0.01), (8, 0.012), (64, 0.05), (256, 0.2)],
    decode_attended_seconds=2e-6,
    prompt_attended_seconds=1e-7,
    drawn_seconds=1e-4,
    request_seconds=0.003,
)


def load(tokens: int, *, decode: int = 0, prompt: int = 0) -> StepLoad:
    rows = 1 if prompt else tokens
    return StepLoad(tokens, rows, rows, decode, prompt, decode + prompt)


def samples() -> list[Sample]:
    times = MeasuredTimes(TRUTH)
    steps = [
        *(load(n, decode=n * context) for n in (1, 8, 64) for context in (10, 500)),
        *(load(n, prompt=context) for n in (8, 64, 256) for context in (1000, 90_000)),
    ]
    alone = [Sample([one], times.seconds(one)) for one in steps]
    pair = [load(256, prompt=30_000), load(64, prompt=5000)]
    both = sum(times.seconds(one) for one in pair) + TRUTH.request_seconds
    return [*alone, Sample(pair, both, with_request=True)]


def test_a_fit_finds_what_the_samples_were_made_of() -> None:
    found = fit(samples(), "m", "x")
    assert [count for count, _ in found.knots] == [1, 8, 64, 256]
    assert [seconds for _, seconds in found.knots] == pytest.approx(
        [seconds for _, seconds in TRUTH.knots], rel=0.02
    )
    assert found.decode_attended_seconds == pytest.approx(2e-6, rel=0.05)
    assert found.prompt_attended_seconds == pytest.approx(1e-7, rel=0.05)
    assert found.drawn_seconds == pytest.approx(1e-4, rel=0.1)
    assert found.request_seconds == pytest.approx(0.003, rel=0.1)
    assert found.typical_error < 0.01


def test_equal_steps_of_unequal_times_cost_their_mean() -> None:
    found = fit([Sample([load(1)], seconds) for seconds in (0.01, 0.01, 0.04)], "m", "x")
    assert MeasuredTimes(found).seconds(load(1)) == pytest.approx(0.02)


def test_no_cost_is_fitted_below_zero_and_no_curve_falls() -> None:
    """A larger step that was measured as faster is noise."""
    found = fit([Sample([load(1)], 0.02), Sample([load(8, decode=99)], 0.01)], "m", "x")
    (_, first), (_, second) = found.knots
    assert first == pytest.approx(second)
    assert 0.01 <= first <= 0.02
    assert found.decode_attended_seconds == 0.0


def test_a_curve_that_begins_at_nothing_still_makes_a_profile() -> None:
    """These times grow faster than what is looked at, so that nothing is left for the curve."""
    steps = [load(1, decode=context) for context in (100, 200, 400)]
    found = fit([Sample([one], 1e-8 * one.num_decode_attended**2) for one in steps], "m", "x")
    assert found.knots == [(1, LEAST_STEP_SECONDS)]
    assert profile_from_json(profile_to_json(found), "p") == found


def test_the_curve_is_linear_between_knots_and_beyond() -> None:
    times = MeasuredTimes(TRUTH)
    assert times.seconds(load(36)) == pytest.approx((0.012 + 0.05) / 2 + 36e-4)
    assert times.seconds(load(448)) == pytest.approx(0.2 + 0.15 + 448e-4)
    assert times.seconds(load(1, decode=1000)) == pytest.approx(0.012 + 1e-4)


def test_a_profile_reads_back_equal() -> None:
    assert profile_from_json(profile_to_json(TRUTH), "f") == TRUTH


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"schema": "x"}, "schema 'x'"),
        ({"knots": []}, "knots must ascend"),
        ({"knots": [(2, 0.1), (1, 0.2)]}, "knots must ascend"),
        ({"knots": [(1, 0.0)]}, "seconds must be above 0"),
        ({"request_seconds": -1.0}, "a cost is negative"),
    ],
)
def test_a_profile_that_cannot_be_computed_with_is_refused(
    changes: dict[str, object], error: str
) -> None:
    fields = {**msgspec.to_builtins(TRUTH), **changes}
    with pytest.raises(ConfigError, match=error):
        profile_from_json(msgspec.json.encode(fields), "f")


def test_other_files_are_refused() -> None:
    with pytest.raises(ConfigError, match="f is no profile"):
        profile_from_json(b"{}", "f")
    with pytest.raises(ConfigError, match="no measured step"):
        fit([], "m", "x")


def metric(name: str, rate: float) -> Metric:
    return Metric(name=name, unit="tokens/s", better="higher", samples=[rate])


def test_a_report_of_the_latency_bench_makes_a_profile() -> None:
    """Steps of 64 tokens in 40 ms, of one in 10 and of four in 12: by rates, as the bench tells."""
    report = Report(
        kind="latency",
        created="",
        machine=fingerprint(1),
        model="tiny",
        settings={"max_num_batched_tokens": 64},
        metrics=[
            metric("prefill context 128 batch 1", 128 / 0.08),
            metric("decode context 128 batch 1", 1 / 0.01),
            metric("decode context 128 batch 4", 4 / 0.012),
            metric("something else", 1.0),
        ],
    )
    profile = fit_report(report, "f")
    assert [count for count, _ in profile.knots] == [1, 4, 64]
    assert profile.max_num_batched_tokens == 64
    times = MeasuredTimes(profile)
    assert times.seconds(load(1, decode=144)) == pytest.approx(0.01, rel=0.01)
    assert times.seconds(load(4, decode=4 * 144)) == pytest.approx(0.012, rel=0.01)


def test_a_report_of_another_bench_is_refused() -> None:
    report = Report(kind="serve", created="", machine=fingerprint(1))
    with pytest.raises(ConfigError, match="f is a report of 'serve'"):
        fit_report(report, "f")
