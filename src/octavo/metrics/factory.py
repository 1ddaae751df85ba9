"""Makes the metrics of one served model in a registry of its own, and bounds tenants' labels."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

ENGINE_INDEX = "0"
MAX_TENANT_LABELS = 64
ANONYMOUS, OTHER = "default", "other"
_LABELS = ("model_name", "engine")


class MetricFactory:
    """Makes metrics in one registry, with the labels that all of them carry already bound."""

    def __init__(self, model_name: str) -> None:
        self.registry = CollectorRegistry()
        self._values = (model_name, ENGINE_INDEX)

    def counter(self, name: str, text: str) -> Counter:
        return Counter(name, text, _LABELS, registry=self.registry).labels(*self._values)

    def gauge(self, name: str, text: str) -> Gauge:
        return Gauge(name, text, _LABELS, registry=self.registry).labels(*self._values)

    def histogram(self, name: str, text: str, bounds: Iterable[float]) -> Histogram:
        return self.histograms(name, text, bounds, ()).labels(*self._values)

    def counters(
        self, name: str, text: str, label: str, values: Iterable[str]
    ) -> dict[str, Counter]:
        """One counter for each value of one more label, all of them present from the start."""
        metric = Counter(name, text, (*_LABELS, label), registry=self.registry)
        return {value: metric.labels(*self._values, value) for value in values}

    def gauges(self, name: str, text: str, labels: Iterable[str]) -> Gauge:
        """A gauge family with more labels; `labelled` gives the gauge of their values."""
        return Gauge(name, text, (*_LABELS, *labels), registry=self.registry)

    def histograms(
        self, name: str, text: str, bounds: Iterable[float], labels: Iterable[str]
    ) -> Histogram:
        """A histogram family with more labels; `distribution` gives the one of their values."""
        names = (*_LABELS, *labels)
        return Histogram(name, text, names, registry=self.registry, buckets=tuple(bounds))

    def labelled(self, family: Gauge, *values: str) -> Gauge:
        return family.labels(*self._values, *values)

    def distribution(self, family: Histogram, *values: str) -> Histogram:
        return family.labels(*self._values, *values)


class TenantLabels:
    """Names of tenants as labels. Clients may invent tenants, so only the `known` ones and the
    first `MAX_TENANT_LABELS` others are shown by name, later ones together as `OTHER`."""

    def __init__(self, known: Iterable[str] = ()) -> None:
        self._names = {"": ANONYMOUS, **{name: name for name in known}}
        self._max_names = len(self._names) + MAX_TENANT_LABELS

    def label(self, tenant: str) -> str:
        if tenant not in self._names and len(self._names) < self._max_names:
            self._names[tenant] = tenant
        return self._names.get(tenant, OTHER)
