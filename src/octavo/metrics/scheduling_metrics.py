"""What scheduling did and why somebody waits: metrics for eyes. Knows no scheduler and no policy.

The same rule for names as in `metrics.engine_metrics`.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable, Mapping

from prometheus_client import Gauge

from octavo.core.outputs import EngineStats, RequestTimes
from octavo.errors import REFUSAL_CODES, RefusalCode
from octavo.metrics import buckets
from octavo.metrics.factory import MetricFactory, TenantLabels

WAITING_REASONS = ("slots", "pages", "prefix", "policy")

SCHEDULING_COUNTERS = (
    ("num_copied_pages", "octavo:copied_pages", "Shared pages copied to be written."),
    ("num_evicted_pages", "octavo:evicted_pages", "Cached pages that gave way to others."),
    ("num_swapped_out_pages", "octavo:swapped_out_pages", "Pages moved to the swap space."),
    ("num_swapped_in_pages", "octavo:swapped_in_pages", "Pages moved back from the swap space."),
    ("num_wasted_tokens", "octavo:wasted_tokens", "Tokens computed again after a preemption."),
    ("num_expired", "octavo:expired_requests", "Sequences that their deadline ended."),
)
"""Fields of `EngineStats` that only grow, with name and help of their counter."""

_GAUGES = (
    ("num_swapped", "vllm:num_requests_swapped", "Waiting sequences whose pages are swapped out."),
    ("num_waiting_tokens", "octavo:num_waiting_tokens", "Prompt tokens still to compute."),
    ("num_saved_pages", "octavo:num_saved_pages", "Pages more that would be held without sharing."),
    ("num_pinned_pages", "octavo:num_pinned_pages", "Cached pages that must not be evicted."),
    ("num_wasted_slots", "octavo:num_wasted_slots", "Token slots of held pages without a token."),
    (
        "prompt_seconds_per_token",
        "octavo:prompt_seconds_per_token",
        "What one more prompt token costs, by the measured steps.",
    ),
    (
        "step_seconds_per_sequence",
        "octavo:step_seconds_per_sequence",
        "What one more decoding sequence costs a step, by the measured steps.",
    ),
)


class SchedulingMetrics:
    """`policy` is the scheduling policy's name, `tenants` those that always have a label."""

    def __init__(self, make: MetricFactory, policy: str, tenants: Iterable[str]) -> None:
        self._make = make
        self._policy = policy
        self._labels = TenantLabels(tenants)
        self._gauges = {field: make.gauge(name, text) for field, name, text in _GAUGES}
        self._reasons = make.gauges(
            "vllm:num_requests_waiting_by_reason",
            "Waiting sequences by what holds them.",
            ["reason"],
        )
        self._tenants = make.gauges(
            "octavo:num_requests_waiting_by_tenant", "Waiting sequences by tenant.", ["tenant"]
        )
        self._queue_seconds = make.histograms(
            "octavo:queue_seconds",
            "Waiting for a slot, by policy and tenant.",
            buckets.REQUEST_SECONDS,
            ("policy", "tenant"),
        )
        self._refusals = make.counters(
            "octavo:refused_requests", "Requests refused at admission.", "code", REFUSAL_CODES
        )
        self._shown_tenants: set[str] = set()
        self.show(EngineStats())

    def refused(self, code: RefusalCode) -> None:
        self._refusals[code].inc()

    def finished(self, tenant: str, times: RequestTimes) -> None:
        label = self._labels.label(tenant)
        metric = self._make.distribution(self._queue_seconds, self._policy, label)
        metric.observe(times.queue_seconds)

    def show(self, now: EngineStats) -> None:
        for field, gauge in self._gauges.items():
            gauge.set(getattr(now, field))
        by_reason = {**dict.fromkeys(WAITING_REASONS, 0), **now.num_waiting_by_reason}
        self._set(self._reasons, by_reason)
        by_tenant: Tally[str] = Tally()
        for tenant, number in now.num_waiting_by_tenant.items():
            by_tenant[self._labels.label(tenant)] += number
        gone = dict.fromkeys(self._shown_tenants - by_tenant.keys(), 0)
        self._shown_tenants = set(by_tenant)
        self._set(self._tenants, {**gone, **by_tenant})

    def _set(self, family: Gauge, values: Mapping[str, int]) -> None:
        for label, value in values.items():
            self._make.labelled(family, label).set(value)
