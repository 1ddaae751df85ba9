"""Which ratios are wanted (`targets.json`), and whether a report reaches them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from octavo.bench.report import Report

FILE = Path(__file__).with_name("targets.json")
BF16_FILE = "bf16"
"""Part of the name of a file of bfloat16 weights: all of these have the same targets, and others
when they are quantised as they are loaded."""


@dataclass(frozen=True, slots=True)
class Verdict:
    name: str
    reached: float
    target: float

    @property
    def is_met(self) -> bool:
        return self.reached >= self.target


def targets_of(report: Report) -> dict[str, float]:
    """By metric. Empty for a model without targets."""
    targets = msgspec.json.decode(FILE.read_bytes(), type=dict[str, dict[str, float]])
    if BF16_FILE not in report.model:
        return targets.get(report.model, {})
    is_quantised = "quantization" in str(report.settings.get("octavo", ""))
    return targets["bfloat16, quantised" if is_quantised else "bfloat16"]


def verdicts(report: Report) -> list[Verdict]:
    """Of all targets that the report says something about: medians, and shares of the limit."""
    targets = targets_of(report)
    reached = {metric.name: metric.summary.median for metric in report.metrics}
    for metric in report.metrics:
        if metric.share is not None:
            reached[f"{metric.name} share"] = metric.share
    return [
        Verdict(name, reached[name], target) for name, target in targets.items() if name in reached
    ]


def lines(found: Sequence[Verdict]) -> list[str]:
    """One for each target, aligned."""
    return [
        f"{'met   ' if one.is_met else 'short '} {one.name:42} {one.reached:6.2f}"
        f"  wanted {one.target:g}"
        for one in found
    ]
