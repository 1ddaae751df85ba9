"""Samples for a profile out of a report of `octavo bench latency`. Knows how that bench steps."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from octavo.bench.latency import Case, decode_step, make_sequences, prompt_steps
from octavo.bench.report import Report
from octavo.core.schedule import load_of
from octavo.errors import ConfigError
from octavo.simulate.measured import Profile, Sample, fit

NAME = re.compile(r"(prefill|decode) context (\d+) batch (\d+)")
MEAN_DECODE = 16
"""Decode steps that a decode of a report had behind it, on average: the bench takes 32."""


def fit_report(report: Report, origin: str) -> Profile:
    """Raises ConfigError, naming `origin`, for a report of another kind."""
    budget = report.settings.get("max_num_batched_tokens")
    if report.kind != "latency" or not isinstance(budget, int) or budget < 1:
        raise ConfigError(f"{origin} is a report of {report.kind!r}; 'latency' is allowed")
    machine = f"{report.machine.processor}, {report.machine.threads} threads"
    profile = fit(list(_samples(report, budget)), report.model, machine)
    return msgspec.structs.replace(profile, max_num_batched_tokens=budget)


def _samples(report: Report, budget: int) -> Iterator[Sample]:
    for metric in report.metrics:
        match = NAME.fullmatch(metric.name)
        if match is None:
            continue
        case = Case(int(match[2]), int(match[3]))
        rate = metric.summary.median
        if match[1] == "prefill":
            sequences = make_sequences(case, 0, vocab_size=2)
            loads = [load_of(step) for step in prompt_steps(sequences, budget)]
            yield Sample(loads, case.batch * case.context / rate)
        else:
            later = Case(case.context + MEAN_DECODE, case.batch)
            loads = [load_of(decode_step(make_sequences(later, 0, vocab_size=2)))]
            yield Sample(loads, case.batch / rate)
