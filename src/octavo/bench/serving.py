"""From the outcomes of a load to figures under vLLM's names. Knows neither clock nor network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from octavo.bench.load import Outcome
from octavo.bench.report import Metric
from octavo.bench.statistics import summarise
from octavo.errors import ConfigError

GOODPUT_KINDS = ("ttft", "tpot", "e2el")
MILLISECONDS = 1e3


def parse_goodput(texts: Sequence[str]) -> dict[str, float]:
    """["ttft:500", "tpot:50"] -> milliseconds by kind. Raises ConfigError."""
    targets = {}
    for text in texts:
        kind, _, value = text.partition(":")
        try:
            milliseconds = float(value)
        except ValueError:
            milliseconds = -1.0
        if kind not in GOODPUT_KINDS or not milliseconds > 0:
            kinds = ", ".join(GOODPUT_KINDS)
            raise ConfigError(f"--goodput is {text!r}; KIND:MILLISECONDS, with {kinds}, is allowed")
        targets[kind] = milliseconds
    return targets


def latency_samples(outcomes: Sequence[Outcome]) -> dict[str, list[float]]:
    """Milliseconds of the finished requests: ttft, tpot, itl, e2el."""
    good = [outcome for outcome in outcomes if not outcome.error]
    tpots = [outcome.tpot for outcome in good]
    samples = {
        "ttft": [outcome.ttft for outcome in good],
        "tpot": [tpot for tpot in tpots if tpot is not None],
        "itl": [gap for outcome in good for gap in outcome.itls],
        "e2el": [outcome.latency for outcome in good],
    }
    return {kind: [MILLISECONDS * value for value in seconds] for kind, seconds in samples.items()}


def latency_metrics(outcomes: Sequence[Outcome]) -> list[Metric]:
    return [
        Metric(name=kind, unit="ms", better="lower", samples=values)
        for kind, values in latency_samples(outcomes).items()
        if values
    ]


def serving_results(
    outcomes: Sequence[Outcome], duration: float, goodput: Mapping[str, float]
) -> dict[str, float]:
    """The fields of vLLM's `bench serve`, with p90 beside p99. `duration` is in seconds."""
    good = [outcome for outcome in outcomes if not outcome.error]
    num_inputs = sum(outcome.num_prompt_tokens for outcome in good)
    num_outputs = sum(outcome.num_output_tokens for outcome in good)
    results: dict[str, float] = {
        "duration": duration,
        "completed": len(good),
        "failed": len(outcomes) - len(good),
        "total_input_tokens": num_inputs,
        "total_output_tokens": num_outputs,
        "request_throughput": len(good) / duration,
        "output_throughput": num_outputs / duration,
        "total_token_throughput": (num_inputs + num_outputs) / duration,
    }
    if goodput:
        meeting = sum(meets(outcome, goodput) for outcome in good)
        results["request_goodput"] = meeting / duration
    for kind, samples in latency_samples(outcomes).items():
        if not samples:
            continue
        summary = summarise(samples)
        results[f"mean_{kind}_ms"] = summary.mean
        results[f"median_{kind}_ms"] = summary.median
        results[f"std_{kind}_ms"] = summary.deviation
        results[f"p90_{kind}_ms"] = summary.p90
        results[f"p99_{kind}_ms"] = summary.p99
    return results


def meets(outcome: Outcome, goodput: Mapping[str, float]) -> bool:
    """Whether a finished request kept every target. Without a second token, tpot is kept."""
    held = {"ttft": outcome.ttft, "tpot": outcome.tpot or 0.0, "e2el": outcome.latency}
    return all(MILLISECONDS * held[kind] <= limit for kind, limit in goodput.items())
