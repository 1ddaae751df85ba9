"""Reads what /metrics says, and how it differs from what it said before. Knows no network."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families

_COMMON_LABELS = frozenset({"model_name", "engine"})

Labels = frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Values by name and labels, without the labels that all of them carry. What is not there
    counts as 0. `time` is in seconds of any clock."""

    time: float
    values: Mapping[tuple[str, Labels], float] = field(repr=False)

    def value(self, name: str, **labels: str) -> float:
        return self.values.get((name, frozenset(labels.items())), 0.0)

    def by_label(self, name: str, label: str) -> dict[str, float]:
        """The values of a family with this label; summed over other labels."""
        found: dict[str, float] = {}
        for (known, labels), value in self.values.items():
            if known == name and (key := dict(labels).get(label)) is not None:
                found[key] = found.get(key, 0.0) + value
        return found

    def label(self, name: str, label: str) -> str:
        """What an info metric says by a label; '' if it does not."""
        return next(iter(self.by_label(name, label)), "")

    def quantile(self, name: str, share: float, **labels: str) -> float | None:
        """Of a histogram, as Prometheus' histogram_quantile tells it: linear within a bucket, and
        the last bound beyond it. None without observations."""
        buckets = self._buckets(name, labels)
        total = buckets[-1][1] if buckets else 0.0
        if total <= 0:
            return None
        low, below = 0.0, 0.0
        for bound, count in buckets:
            if count >= share * total:
                if math.isinf(bound):
                    return low
                within = (share * total - below) / (count - below) if count > below else 0.0
                return low + (bound - low) * within
            low, below = bound, count
        return low

    def since(self, before: Snapshot) -> Snapshot:
        """Everything less what it was: for counters and histograms, what happened in between. A
        server that was started anew in between has counted from 0."""
        return Snapshot(
            self.time - before.time,
            {
                key: value - earlier if value >= (earlier := before.values.get(key, 0.0)) else value
                for key, value in self.values.items()
            },
        )

    def rate(self, name: str) -> float:
        """A second, of what `since` made."""
        return self.value(name) / self.time if self.time > 0 else 0.0

    def _buckets(self, name: str, labels: Mapping[str, str]) -> list[tuple[float, float]]:
        """(upper bound, observations up to it), ascending."""
        buckets: dict[float, float] = {}
        for (known, found), value in self.values.items():
            if known == f"{name}_bucket":
                own = dict(found)
                bound = float(own.pop("le"))
                if own == labels:
                    buckets[bound] = value
        return sorted(buckets.items())


def parse_snapshot(text: str, time: float) -> Snapshot:
    """From Prometheus' exposition format. Raises ValueError if it is none."""
    values = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = frozenset(
                item for item in sample.labels.items() if item[0] not in _COMMON_LABELS
            )
            values[sample.name, labels] = sample.value
    return Snapshot(time, values)
