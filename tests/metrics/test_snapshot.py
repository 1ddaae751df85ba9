from __future__ import annotations

import random

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from octavo.metrics.snapshot import Snapshot, parse_snapshot


def _parse(registry: CollectorRegistry, time: float = 0.0) -> Snapshot:
    return parse_snapshot(generate_latest(registry).decode(), time)


def test_values_are_found_by_name_and_labels_beyond_model_and_engine() -> None:
    registry = CollectorRegistry()
    labels = ("model_name", "engine", "code")
    counter = Counter("refused", "", labels, registry=registry)
    counter.labels("m", "0", "full").inc(3)
    counter.labels("m", "0", "late").inc(1)
    Gauge("facts", "", ("block_size",), registry=registry).labels("16").set(1)
    snapshot = _parse(registry)
    assert snapshot.value("refused_total", code="full") == 3
    assert snapshot.by_label("refused_total", "code") == {"full": 3, "late": 1}
    assert snapshot.label("facts", "block_size") == "16"
    assert snapshot.value("nothing") == 0
    assert snapshot.by_label("nothing", "code") == {}
    assert snapshot.label("nothing", "code") == ""


def test_what_happened_in_between_and_how_fast() -> None:
    registry = CollectorRegistry()
    counter = Counter("steps", "", registry=registry)
    counter.inc(10)
    before = _parse(registry, time=100.0)
    counter.inc(6)
    news = _parse(registry, time=104.0).since(before)
    assert news.value("steps_total") == 6
    assert news.rate("steps_total") == 1.5
    again = CollectorRegistry()
    Counter("steps", "", registry=again).inc(2)
    assert _parse(again, 105.0).since(before).value("steps_total") == 2


def test_quantiles_lie_within_the_bucket_of_the_true_one() -> None:
    registry = CollectorRegistry()
    bounds = (1.0, 2.0, 5.0, 10.0, 20.0)
    histogram = Histogram("wait", "", ("tenant",), registry=registry, buckets=bounds)
    source = random.Random(1)
    samples = sorted(source.uniform(0, 20) for _ in range(500))
    for sample in samples:
        histogram.labels("a").observe(sample)
    snapshot = _parse(registry)
    for share in (0.1, 0.5, 0.9, 0.99):
        estimate = snapshot.quantile("wait", share, tenant="a")
        assert estimate is not None
        assert estimate == pytest.approx(samples[int(share * 500) - 1], abs=1.0)
    assert snapshot.quantile("wait", 0.5, tenant="b") is None
    assert snapshot.quantile("wait", 0.5) is None


def test_quantiles_beyond_the_last_bound_are_the_last_bound() -> None:
    registry = CollectorRegistry()
    histogram = Histogram("wait", "", registry=registry, buckets=(1.0, 2.0))
    histogram.observe(100)
    assert _parse(registry).quantile("wait", 0.5) == 2.0
