"""Which ratios are wanted (`targets.json`), and whether a report reaches them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from octavo.bench.report import Report

FILE = Path(__file__).with_name("targets.json")
BF16_FILE = "bf16"
"""Part of the name of a file of bfloat16 weights: all of these have the same targets."""


@dataclass(frozen=True, slots=True)
class Verdict:
    name: str
    reached: float
    target: float

    @property
    def is_met(self) -> bool:
        return self.reached >= self.target


def targets_of(model: str) -> dict[str, float]:
    """By metric, for a file name. Empty for a model without targets."""
    targets = msgspec.json.decode(FILE.read_bytes(), type=dict[str, dict[str, float]])
    return targets.get("bfloat16" if BF16_FILE in model else model, {})


def verdicts(report: Report) -> list[Verdict]:
    """Of all targets that the report says something about: medians, and shares of the limit."""
    targets = targets_of(report.model)
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
