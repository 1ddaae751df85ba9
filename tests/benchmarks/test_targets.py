"""Verdicts on a report by the wanted ratios."""

from __future__ import annotations

import msgspec
import pytest

from benchmarks.targets import lines, targets_of, verdicts
from octavo.bench.fingerprint import fingerprint
from octavo.bench.report import Metric, Report, now

SMOLLM2 = "SmolLM2-135M-Instruct.Q4_1.gguf"


def report_of(model: str, *metrics: Metric) -> Report:
    return Report(
        kind="side-by-side",
        created=now(),
        machine=fingerprint(1),
        model=model,
        metrics=list(metrics),
    )


def metric(name: str, samples: list[float], share: float | None = None) -> Metric:
    return Metric(name=name, unit="times", better="higher", samples=samples, share=share)


def test_the_median_decides() -> None:
    low = metric("octavo / llama.cpp prefill", [9.0, 9.0, 30.0])
    high = metric("octavo / llama.cpp decode", [2.4, 2.5, 2.6])
    found = {one.name: one.is_met for one in verdicts(report_of(SMOLLM2, low, high))}
    assert found == {low.name: False, high.name: True}


def test_the_share_of_the_limit_has_a_target_of_its_own() -> None:
    (one,) = verdicts(report_of(SMOLLM2, metric("octavo decode", [1.0], share=0.59)))
    assert (one.name, one.reached, one.is_met) == ("octavo decode share", 0.59, False)


def test_what_was_not_measured_is_not_judged() -> None:
    assert verdicts(report_of(SMOLLM2)) == []
    assert verdicts(report_of("other.gguf", metric("octavo / llama.cpp prefill", [1.0]))) == []


def test_all_files_of_bfloat16_weights_have_the_same_targets() -> None:
    small, large = report_of("smollm2-bf16.gguf"), report_of("qwen2.5-0.5b-bf16.gguf")
    assert targets_of(small) == targets_of(large) != {}


def test_more_is_wanted_of_weights_that_are_quantised_at_load() -> None:
    plain = report_of("smollm2-bf16.gguf")
    quantised = msgspec.structs.replace(plain, settings={"octavo": "quantization=int8"})
    assert (
        targets_of(quantised)["octavo / vllm prefill"] > targets_of(plain)["octavo / vllm prefill"]
    )


@pytest.mark.parametrize(("ratio", "word"), [(10.0, "met"), (9.9, "short")])
def test_a_line_says_whether_a_target_is_met(ratio: float, word: str) -> None:
    (line,) = lines(verdicts(report_of(SMOLLM2, metric("octavo / llama.cpp prefill", [ratio]))))
    assert line.startswith(word)
    assert line.endswith("wanted 10")
