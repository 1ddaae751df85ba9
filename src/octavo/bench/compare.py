"""Whether two reports differ by more than chance explains. Knows no files."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from octavo.bench.report import Metric, Report
from octavo.bench.statistics import median_noise

Verdict = Literal["better", "worse", "no difference"]

LEAST_NOISE = 0.03
"""Relative: smaller differences are none, however steady the samples of a report are. They share a
process, with its place in memory and its minute; the same build measured twice differs so much."""


@dataclass(frozen=True, slots=True)
class Difference:
    """`noise` is the relative difference that chance alone may make; infinite if unknown."""

    name: str
    unit: str
    first: float
    second: float
    noise: float
    verdict: Verdict

    @property
    def ratio(self) -> float:
        return self.second / self.first if self.first else math.inf


def compare_metrics(first: Metric, second: Metric, least_noise: float = LEAST_NOISE) -> Difference:
    """From `first` to `second`, by medians; both are of one name, unit and direction."""
    a, b = first.summary.median, second.summary.median
    absolute = math.hypot(median_noise(first.samples), median_noise(second.samples))
    scale = max(abs(a), abs(b))
    noise = max(least_noise, absolute / scale) if scale else math.inf
    verdict: Verdict = "no difference"
    if scale and abs(b - a) / scale > noise:
        verdict = "better" if (b > a) == (first.better == "higher") else "worse"
    return Difference(first.name, first.unit, a, b, noise, verdict)


def compare_reports(
    first: Report, second: Report, least_noise: float = LEAST_NOISE
) -> list[Difference]:
    """Of the metrics that both have, in the order of the first."""
    others = {(metric.name, metric.unit): metric for metric in second.metrics}
    return [
        compare_metrics(metric, others[metric.name, metric.unit], least_noise)
        for metric in first.metrics
        if (metric.name, metric.unit) in others
    ]


def machine_differences(first: Report, second: Report) -> list[str]:
    """What else differs between the two: figures of unlike machines are not comparable."""
    fields = first.machine.__struct_fields__
    lines = []
    for name in fields:
        a, b = getattr(first.machine, name), getattr(second.machine, name)
        if a != b:
            lines.append(f"{name}: {a} -> {b}")
    for name in sorted({*first.settings, *second.settings}):
        a, b = first.settings.get(name), second.settings.get(name)
        if a != b:
            lines.append(f"{name}: {a} -> {b}")
    if first.model != second.model:
        lines.append(f"model: {first.model} -> {second.model}")
    return lines
