"""Figures from outcomes: vLLM's names, worked examples, goodput."""

from __future__ import annotations

import pytest

from octavo.bench.load import Outcome
from octavo.bench.serving import latency_metrics, parse_goodput, serving_results
from octavo.errors import ConfigError

FAST = Outcome(10, 3, [0.1, 0.2, 0.4], 0.41)
SLOW = Outcome(20, 2, [0.5, 1.5], 1.5)
SHORT = Outcome(5, 1, [0.3], 0.3)
FAILED = Outcome(9, 0, [], 0.2, "refused")


def test_figures_have_vllms_names_and_values() -> None:
    results = serving_results([FAST, SLOW, SHORT, FAILED], 2.0, {})
    assert results["completed"] == 3
    assert results["failed"] == 1
    assert results["total_input_tokens"] == 35
    assert results["total_output_tokens"] == 6
    assert results["request_throughput"] == 1.5
    assert results["output_throughput"] == 3.0
    assert results["total_token_throughput"] == 20.5
    assert results["median_ttft_ms"] == pytest.approx(300)
    assert results["mean_tpot_ms"] == pytest.approx((150 + 1000) / 2)
    assert results["median_itl_ms"] == pytest.approx(200)
    assert results["median_e2el_ms"] == pytest.approx(400)
    for kind in ("ttft", "tpot", "itl", "e2el"):
        for what in ("mean", "median", "std", "p90", "p99"):
            assert f"{what}_{kind}_ms" in results
    assert "request_goodput" not in results


def test_goodput_counts_requests_that_keep_every_target() -> None:
    outcomes = [FAST, SLOW, SHORT, FAILED]
    assert serving_results(outcomes, 2.0, {"ttft": 300})["request_goodput"] == 1.0
    assert serving_results(outcomes, 2.0, {"ttft": 300, "e2el": 350})["request_goodput"] == 0.5
    assert serving_results(outcomes, 2.0, {"tpot": 1})["request_goodput"] == 0.5


def test_a_load_that_failed_wholly_still_has_figures() -> None:
    results = serving_results([FAILED], 1.0, {"ttft": 1})
    assert (results["completed"], results["failed"], results["request_goodput"]) == (0, 1, 0)
    assert latency_metrics([FAILED]) == []


def test_metrics_hold_every_sample() -> None:
    by_name = {metric.name: metric.samples for metric in latency_metrics([FAST, SLOW, SHORT])}
    assert {name: len(samples) for name, samples in by_name.items()} == {
        "ttft": 3,
        "tpot": 2,
        "itl": 3,
        "e2el": 3,
    }


def test_goodput_targets_are_read() -> None:
    assert parse_goodput(["ttft:500", "tpot:50.5"]) == {"ttft": 500, "tpot": 50.5}


@pytest.mark.parametrize("text", ["ttft", "ttft:", "itl:5", "ttft:-1", "ttft:nan", "ttft:0"])
def test_other_goodput_targets_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--goodput is"):
        parse_goodput([text])
