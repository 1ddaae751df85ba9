from __future__ import annotations

import os

from benchmarks.scheduling.overload import Phase, resident_bytes
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
    results = Phase(4.0, outcomes, news, 2**20, generator_cpu_seconds=1.0).results()
    assert (results["admitted"], results["refused"], results["failed"]) == (1, 2, 1)
    assert results["ttft_p99_seconds"] == 0.5
    assert 0.01 < results["refusal_p50_seconds"] < 0.03
    assert results["tokens_per_second"] == 10
    assert results["most_memory_mib"] == 1
    assert results["generator_cpu_share"] == 0.25


def test_memory_is_that_of_a_process_group() -> None:
    assert resident_bytes(os.getpgid(0)) > 2**20
    assert resident_bytes(-5) == 0
