from __future__ import annotations

import os

import pytest

from benchmarks.scheduling.overload import Phase, resident_bytes, verdict
from octavo.bench.load import Outcome
from octavo.metrics.snapshot import parse_snapshot


def test_answers_refusals_and_failures_are_told_apart() -> None:
    outcomes = [
        Outcome(5, num_output_tokens=2, arrival_seconds=[0.5, 0.6], end_seconds=0.7),
        Outcome(5, end_seconds=0.01, error="HttpError: HTTP 429: {...}"),
        Outcome(5, end_seconds=0.03, error="HttpError: HTTP 503: {...}"),
        Outcome(5, end_seconds=9.0, error="HttpError: HTTP 500: {...}"),
    ]
    text = "# TYPE vllm:generation_tokens counter\nvllm:generation_tokens_total 40\n"
    news = parse_snapshot(text, 4.0)
    results = Phase(outcomes, news, 2**20, generator_cpu_seconds=1.0).results()
    assert results["seconds"] == 4.0
    assert (results["admitted"], results["refused"], results["failed"]) == (1, 2, 1)
    assert results["ttft_p99_seconds"] == 0.5
    assert 0.01 < results["refusal_p50_seconds"] < 0.03
    assert results["tokens_per_second"] == 10
    assert results["most_memory_mib"] == 1
    assert results["generator_cpu_share"] == 0.25


def phase(num_tokens: int, ttft: float, *, most_memory: int = 0) -> Phase:
    """Ten seconds of so many tokens, with one answer and one refusal."""
    outcomes = [
        Outcome(5, num_output_tokens=1, arrival_seconds=[ttft], end_seconds=ttft),
        Outcome(5, end_seconds=0.25, error="HttpError: HTTP 503: {...}"),
    ]
    text = f"# TYPE vllm:generation_tokens counter\nvllm:generation_tokens_total {num_tokens}\n"
    return Phase(outcomes, parse_snapshot(text, 10.0), most_memory, generator_cpu_seconds=1.0)


def test_goodput_is_judged_by_the_mean_of_the_peaks_and_the_rest_by_the_calm_load() -> None:
    peaks = (phase(1000, 0.1), phase(3000, 0.1))
    calm, overload = phase(500, 0.5, most_memory=2**20), phase(1800, 1.5, most_memory=3 * 2**20)
    judged = verdict(peaks, calm, overload, 2.5)
    assert judged["goodput_share_of_peak"] == pytest.approx(0.9)
    assert judged["ttft_p99_over_calm"] == pytest.approx(3.0)
    assert judged["refusal_p99_seconds"] == 0.25
    assert judged["memory_growth_mib"] == 2
    assert judged["recovery_seconds"] == 2.5


def test_memory_is_that_of_a_process_group() -> None:
    assert resident_bytes(os.getpgid(0)) > 2**20
    assert resident_bytes(-5) == 0
