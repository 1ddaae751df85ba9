from __future__ import annotations

from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from octavo.core.outputs import EngineStats, RequestTimes
from octavo.errors import REFUSAL_CODES
from octavo.metrics.factory import MAX_TENANT_LABELS, MetricFactory, TenantLabels
from octavo.metrics.scheduling_metrics import WAITING_REASONS, SchedulingMetrics

Values = dict[tuple[str, ...], float]


def _values(make: MetricFactory) -> Values:
    """By name and the values of the labels beyond model and engine."""
    values: Values = {}
    for family in text_string_to_metric_families(generate_latest(make.registry).decode()):
        for sample in family.samples:
            labels = {**sample.labels}
            assert (labels.pop("model_name"), labels.pop("engine")) == ("m", "0")
            labels.pop("le", None)
            values[(sample.name, *labels.values())] = sample.value
    return values


def test_every_reason_and_every_refusal_is_there_from_the_start() -> None:
    make = MetricFactory("m")
    SchedulingMetrics(make, "fcfs", ())
    values = _values(make)
    for reason in WAITING_REASONS:
        assert values["vllm:num_requests_waiting_by_reason", reason] == 0
    for code in REFUSAL_CODES:
        assert values["octavo:refused_requests_total", code] == 0


def test_what_waits_is_shown_by_reason_and_tenant_and_goes_back_to_zero() -> None:
    make = MetricFactory("m")
    metrics = SchedulingMetrics(make, "fair", ("alice",))
    metrics.show(
        EngineStats(
            num_swapped=1,
            num_waiting_tokens=40,
            num_wasted_slots=3,
            num_saved_pages=5,
            num_pinned_pages=6,
            prompt_seconds_per_token=0.25,
            step_seconds_per_sequence=0.5,
            num_waiting_by_reason={"slots": 2, "pages": 1},
            num_waiting_by_tenant={"alice": 2, "": 1},
        )
    )
    values = _values(make)
    assert values["vllm:num_requests_waiting_by_reason", "slots"] == 2
    assert values["vllm:num_requests_waiting_by_reason", "pages"] == 1
    assert values["octavo:num_requests_waiting_by_tenant", "alice"] == 2
    assert values["octavo:num_requests_waiting_by_tenant", "default"] == 1
    assert values["vllm:num_requests_swapped",] == 1
    assert values["octavo:num_waiting_tokens",] == 40
    assert values["octavo:num_wasted_slots",] == 3
    assert values["octavo:num_saved_pages",] == 5
    assert values["octavo:num_pinned_pages",] == 6
    assert values["octavo:prompt_seconds_per_token",] == 0.25
    assert values["octavo:step_seconds_per_sequence",] == 0.5
    metrics.show(EngineStats())
    values = _values(make)
    assert values["vllm:num_requests_waiting_by_reason", "slots"] == 0
    assert values["octavo:num_requests_waiting_by_tenant", "alice"] == 0


def test_time_in_the_queue_is_told_by_policy_and_tenant() -> None:
    make = MetricFactory("m")
    metrics = SchedulingMetrics(make, "fair", ())
    metrics.finished("bob", RequestTimes(queue_seconds=2.0))
    metrics.finished("bob", RequestTimes(queue_seconds=3.0))
    metrics.finished("", RequestTimes(queue_seconds=1.0))
    values = _values(make)
    assert values["octavo:queue_seconds_sum", "fair", "bob"] == 5
    assert values["octavo:queue_seconds_count", "fair", "default"] == 1


def test_refusals_are_counted_by_code() -> None:
    make = MetricFactory("m")
    metrics = SchedulingMetrics(make, "fcfs", ())
    metrics.refused("queue_full")
    values = _values(make)
    assert values["octavo:refused_requests_total", "queue_full"] == 1
    assert values["octavo:refused_requests_total", "rate_limit_tokens"] == 0


def test_invented_tenants_make_a_bounded_number_of_labels_and_known_ones_keep_theirs() -> None:
    labels = TenantLabels(("alice",))
    for number in range(MAX_TENANT_LABELS):
        assert labels.label(f"t{number}") == f"t{number}"
    assert labels.label("one-more") == "other"
    assert labels.label("alice") == "alice"
    assert labels.label("") == "default"
    assert labels.label("t0") == "t0"
