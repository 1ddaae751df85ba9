"""Every bound at its limit and one beyond, what a refusal says, and books that come out even."""

from __future__ import annotations

from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.config.engine import EngineConfig
from octavo.config.tenants import TenantLimits, Tenants
from octavo.core.outputs import EngineStats, RequestTimes
from octavo.scheduler.admission.admission import Admission
from octavo.scheduler.admission.demand import LEAST_DEMAND, AdmissionBounds, Demand, Grant, Refusal
from octavo.scheduler.admission.queue_order import queue_order

ROOMY = AdmissionBounds(num_slots=4, max_sequences=1000)


def _admission(
    limits: TenantLimits | None = None,
    bounds: AdmissionBounds = ROOMY,
    **named: TenantLimits,
) -> Admission:
    return Admission(Tenants(limits or TenantLimits(), MappingProxyType(named)), bounds)


def _ids(num_tokens: int, **rest: object) -> Demand:
    return Demand(num_prompt_ids=num_tokens, **rest)  # type: ignore[arg-type]


def _granted(admission: Admission, demand: Demand, tenant: str = "", now: float = 0.0) -> Grant:
    grant = admission.admit(tenant, demand, now)
    assert isinstance(grant, Grant), grant
    return grant


def _refused(admission: Admission, demand: Demand, tenant: str = "", now: float = 0.0) -> Refusal:
    refusal = admission.admit(tenant, demand, now)
    assert isinstance(refusal, Refusal)
    assert refusal.retry_after_seconds >= 1
    return refusal


def test_requests_a_second() -> None:
    admission = _admission(TenantLimits(requests_per_second=0.5, request_burst=2))
    for _ in range(2):
        _granted(admission, _ids(1))
    refusal = _refused(admission, _ids(1))
    assert refusal.code == "rate_limit_requests"
    assert refusal.retry_after_seconds == 2
    assert "0.5" in refusal.message
    _granted(admission, _ids(1), now=2.0)


def test_what_does_not_reach_the_engine_counts_for_the_rate_of_requests_alone() -> None:
    limits = TenantLimits(
        requests_per_second=1,
        request_burst=3,
        tokens_per_second=1,
        token_burst=1,
        max_queued_requests=1,
    )
    admission = _admission(limits, AdmissionBounds(num_slots=1, max_sequences=1))
    grant = _granted(admission, _ids(1))
    assert admission.count("", 0.0) is None, "queues and tokens do not bound it"
    assert admission.count("", 0.0) is None
    refusal = admission.count("", 0.0)
    assert refusal is not None
    assert (refusal.code, refusal.retry_after_seconds) == ("rate_limit_requests", 1)
    admission.close(grant, 0, 0.0)
    assert _refused(admission, _ids(1)).code == "rate_limit_requests"
    assert admission.count("", 1.0) is None
    assert admission.count("another", 1.0) is None


def test_a_refused_request_costs_nothing() -> None:
    limits = TenantLimits(requests_per_second=1, request_burst=2, max_queued_requests=1)
    admission = _admission(limits)
    grant = _granted(admission, _ids(1))
    for _ in range(10):
        assert _refused(admission, _ids(1)).code == "tenant_queue_full"
    admission.started(grant, 0.0)
    _granted(admission, _ids(1))


def test_tokens_a_second_of_prompt_and_answer() -> None:
    admission = _admission(TenantLimits(tokens_per_second=10, token_burst=30))
    _granted(admission, _ids(10, max_output_tokens=10, num_sequences=2))
    refusal = _refused(admission, _ids(1))
    assert refusal.code == "rate_limit_tokens"
    admission = _admission(TenantLimits(tokens_per_second=10, token_burst=31))
    _granted(admission, _ids(10, max_output_tokens=10, num_sequences=2))
    _granted(admission, _ids(1))


def test_the_time_to_retry_follows_from_the_bucket() -> None:
    admission = _admission(TenantLimits(tokens_per_second=10, token_burst=100))
    _granted(admission, _ids(100))
    assert _refused(admission, _ids(55)).retry_after_seconds == 6
    _granted(admission, _ids(55), now=5.5)


def test_more_than_the_burst_waits_for_a_full_bucket_and_owes_what_it_used() -> None:
    admission = _admission(TenantLimits(tokens_per_second=10, token_burst=100))
    grant = _granted(admission, _ids(150, max_output_tokens=50))
    assert _refused(admission, _ids(1)).retry_after_seconds == 1
    admission.tokenised(grant, 150, 0.0)
    admission.close(grant, 50, 0.0)
    assert _refused(admission, _ids(1)).retry_after_seconds == 11


def test_estimates_are_replaced_by_what_was_used() -> None:
    admission = _admission(TenantLimits(tokens_per_second=1, token_burst=1000))
    grant = _granted(admission, Demand(num_text_bytes=400, max_output_tokens=500))
    assert _left(admission) == 1000 - 100 - 500
    admission.tokenised(grant, 40, 0.0)
    assert _left(admission) == 1000 - 40 - 500
    admission.close(grant, 7, 0.0)
    assert _left(admission) == 1000 - 40 - 7
    admission.close(grant, 7, 0.0)
    assert _left(admission) == 1000 - 40 - 7


def test_what_is_never_tokenised_costs_no_tokens() -> None:
    admission = _admission(TenantLimits(tokens_per_second=1, token_burst=1000))
    grant = _granted(admission, Demand(num_text_bytes=400, max_output_tokens=500))
    admission.close(grant, 0, 0.0)
    assert _left(admission) == 1000


def _left(admission: Admission) -> float:
    """Tokens left to the nameless tenant, found by asking."""
    fitting = [n for n in range(1, 1001) if admission.refusal("", _ids(n), 0.0) is None]
    return max(fitting)


def test_answers_without_a_limit_count_as_their_mean() -> None:
    admission = _admission(TenantLimits(tokens_per_second=1, token_burst=1000))
    for _ in range(500):
        admission.estimates.answered(30, 1)
    _granted(admission, _ids(100, max_output_tokens=None))
    assert _left(admission) == 1000 - 100 - 30


@pytest.mark.parametrize("starts", [True, False])
def test_queued_requests_of_a_tenant(starts: bool) -> None:
    admission = _admission(TenantLimits(max_queued_requests=2))
    grants = [_granted(admission, _ids(1)) for _ in range(2)]
    refusal = _refused(admission, _ids(1))
    assert refusal.code == "tenant_queue_full"
    assert "2" in refusal.message
    _granted(admission, _ids(1), tenant="another")
    if starts:
        admission.started(grants[0], 0.0)
    else:
        admission.close(grants[0], 0, 0.0)
    _granted(admission, _ids(1))


def test_queued_tokens_of_a_tenant() -> None:
    admission = _admission(TenantLimits(max_queued_tokens=100))
    grant = _granted(admission, _ids(60))
    assert _refused(admission, _ids(41)).code == "tenant_queue_tokens_full"
    _granted(admission, _ids(41), tenant="another")
    _granted(admission, _ids(40))
    assert _refused(admission, _ids(1)).code == "tenant_queue_tokens_full"
    admission.started(grant, 0.0)
    _granted(admission, _ids(60))


def test_sequences_in_all() -> None:
    admission = _admission(bounds=AdmissionBounds(num_slots=2, max_sequences=5))
    first = _granted(admission, _ids(1, num_sequences=3))
    assert _refused(admission, _ids(1, num_sequences=3)).code == "queue_full"
    _granted(admission, _ids(1, num_sequences=2), tenant="another")
    assert _refused(admission, LEAST_DEMAND).code == "queue_full"
    admission.started(first, 0.0)
    assert _refused(admission, LEAST_DEMAND).code == "queue_full"
    admission.close(first, 0, 0.0)
    _granted(admission, _ids(1, num_sequences=3))


def test_queued_tokens_in_all() -> None:
    bounds = AdmissionBounds(num_slots=2, max_sequences=100, max_queued_tokens=100)
    admission = _admission(bounds=bounds)
    grant = _granted(admission, _ids(60), tenant="a")
    assert _refused(admission, _ids(41), tenant="b").code == "queue_tokens_full"
    _granted(admission, _ids(40), tenant="b")
    assert _refused(admission, LEAST_DEMAND).code == "queue_tokens_full"
    admission.started(grant, 0.0)
    _granted(admission, _ids(60))


def test_what_is_larger_than_a_bound_may_come_when_nothing_else_is_there() -> None:
    bounds = AdmissionBounds(num_slots=2, max_sequences=5, max_queued_tokens=100)
    admission = _admission(TenantLimits(max_queued_tokens=50), bounds)
    grant = _granted(admission, _ids(1000, num_sequences=12))
    assert _refused(admission, LEAST_DEMAND).code == "tenant_queue_tokens_full"
    admission.close(grant, 0, 0.0)
    _granted(admission, _ids(50))


def test_the_queue_shrinks_to_the_true_size_of_a_prompt() -> None:
    bounds = AdmissionBounds(num_slots=2, max_sequences=100, max_queued_tokens=100)
    admission = _admission(bounds=bounds)
    grant = _granted(admission, Demand(num_text_bytes=400))
    assert _refused(admission, LEAST_DEMAND).code == "queue_tokens_full"
    admission.tokenised(grant, 30, 0.0)
    _granted(admission, _ids(70))
    assert _refused(admission, LEAST_DEMAND).code == "queue_tokens_full"


def test_a_full_queue_tells_when_enough_slots_come_free() -> None:
    admission = _admission(bounds=AdmissionBounds(num_slots=2, max_sequences=4))
    assert admission.queue_seconds(0.0, 4) == 0
    _learn_slot_seconds(admission, 10.0)
    _granted(admission, _ids(1, num_sequences=4))
    assert _refused(admission, _ids(1)).retry_after_seconds == 5
    assert _refused(admission, _ids(1, num_sequences=3)).retry_after_seconds == 15


def _learn_slot_seconds(admission: Admission, seconds: float) -> None:
    admission.estimates.finished(RequestTimes(prefill_seconds=seconds, num_generation_tokens=1))


def test_the_predicted_wait_is_for_slots_or_for_prompts() -> None:
    admission = _admission(bounds=AdmissionBounds(num_slots=2, max_sequences=100))
    _learn_slot_seconds(admission, 10.0)
    assert admission.queue_seconds(0.0, 2) == 0
    assert admission.queue_seconds(0.0, 3) == 5
    _granted(admission, _ids(50, num_sequences=3))
    assert admission.queue_seconds(0.0, 1) == 10
    admission.load = EngineStats(prompt_seconds_per_token=0.5)
    assert admission.queue_seconds(0.0, 1) == 25
    admission.load = EngineStats(prompt_seconds_per_token=0.5, num_waiting_tokens=80)
    assert admission.queue_seconds(0.0, 1) == 40


def test_slots_come_free_no_sooner_than_those_who_run_can_end() -> None:
    admission = _admission(bounds=AdmissionBounds(num_slots=2, max_sequences=100))
    _learn_slot_seconds(admission, 1.0)
    admission.estimates.finished(RequestTimes(decode_seconds=10, num_generation_tokens=11))
    first = _granted(admission, _ids(1, max_output_tokens=20))
    second = _granted(admission, _ids(1, max_output_tokens=60))
    admission.started(first, 100.0)
    admission.started(second, 100.0)
    little = admission.estimates.slot_seconds / 2
    assert admission.queue_seconds(100.0, 1) == 20
    assert admission.queue_seconds(100.0, 2) == 60
    assert admission.queue_seconds(105.0, 1) == 15
    assert admission.queue_seconds(119.9, 1) == little
    admission.close(first, 20, 120.0)
    assert admission.queue_seconds(120.0, 1) == 0
    assert admission.queue_seconds(120.0, 2) == 40


def test_where_pages_are_short_only_what_runs_counts_as_slots() -> None:
    admission = _admission(bounds=AdmissionBounds(num_slots=8, max_sequences=100))
    _learn_slot_seconds(admission, 10.0)
    _granted(admission, _ids(1, num_sequences=7))
    assert admission.queue_seconds(0.0, 1) == 0
    admission.load = EngineStats(num_running=4, num_waiting_by_reason={"pages": 3})
    assert admission.queue_seconds(0.0, 1) == 10


def test_a_bound_on_the_predicted_wait() -> None:
    bounds = AdmissionBounds(num_slots=2, max_sequences=100, max_queue_seconds=5)
    admission = _admission(bounds=bounds)
    _learn_slot_seconds(admission, 10.0)
    _granted(admission, _ids(1, num_sequences=2))
    _granted(admission, _ids(1))
    refusal = _refused(admission, _ids(1))
    assert refusal.code == "queue_wait_too_long"
    assert refusal.retry_after_seconds == 5


def test_deadlines_that_cannot_be_met() -> None:
    admission = _admission(bounds=AdmissionBounds(num_slots=2, max_sequences=100))
    _learn_slot_seconds(admission, 10.0)
    admission.estimates.finished(RequestTimes(decode_seconds=10, num_generation_tokens=11))
    admission.load = EngineStats(prompt_seconds_per_token=0.5)
    _granted(admission, _ids(4, num_sequences=2))
    # In line: 5 s. Its own prompt: 2 s. At least 3 tokens, a second each.
    in_time = _ids(4, max_output_tokens=99, min_output_tokens=3, deadline=10.0)
    late = _ids(4, max_output_tokens=99, min_output_tokens=3, deadline=9.9)
    refusal = _refused(admission, late)
    assert refusal.code == "deadline_unreachable"
    assert refusal.retry_after_seconds == 5
    _granted(admission, in_time)


def test_an_empty_server_tries_whatever_the_prediction_says() -> None:
    bounds = AdmissionBounds(num_slots=1, max_sequences=100, max_queue_seconds=1)
    admission = _admission(bounds=bounds)
    admission.load = EngineStats(prompt_seconds_per_token=9.0, num_waiting_tokens=9)
    _granted(admission, _ids(100, deadline=0.5))


def test_a_named_tenant_has_its_own_limits() -> None:
    strict, loose = TenantLimits(max_queued_requests=1), TenantLimits(max_queued_requests=3)
    admission = _admission(strict, alice=loose)
    for _ in range(3):
        _granted(admission, _ids(1), tenant="alice")
    _refused(admission, _ids(1), tenant="alice")
    _granted(admission, _ids(1), tenant="bob")
    _refused(admission, _ids(1), tenant="bob")


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["admit", "tokenise", "start", "close"]),
        st.integers(0, 5),
        st.integers(1, 60),
    ),
    max_size=80,
)


@given(EVENTS)
def test_the_books_come_out_even_whatever_happens(events: list[tuple[str, int, int]]) -> None:
    bounds = AdmissionBounds(num_slots=2, max_sequences=9, max_queued_tokens=90)
    limits = TenantLimits(max_queued_requests=4, max_queued_tokens=70)
    admission = _admission(limits, bounds)
    grants: list[Grant] = []
    for what, which, size in events:
        if what == "admit":
            demand = Demand(num_sequences=1 + which, num_text_bytes=size * 4)
            grant = admission.admit(f"t{which % 2}", demand, 0.0)
            if isinstance(grant, Grant):
                grants.append(grant)
            continue
        if not grants:
            continue
        grant = grants[which % len(grants)]
        if what == "tokenise" and not grant.is_tokenised and grant.is_open:
            admission.tokenised(grant, size, 0.0)
        elif what == "start" and grant.is_open:
            admission.started(grant, 0.0)
        elif what == "close":
            admission.close(grant, size, 0.0)
        queued = [grant for grant in grants if grant.is_queued]
        assert admission.queued.all.num_tokens == sum(grant.num_prompt_tokens for grant in queued)
        still_open = [grant for grant in grants if grant.is_open]
        assert admission.num_sequences == sum(grant.num_sequences for grant in still_open) <= 9
    for grant in grants:
        admission.close(grant, 1, 0.0)
    assert (admission.num_sequences, admission.queued.all) == (0, (0, 0))
    for grant in grants:
        tenant = grant.tenant
        assert (tenant.num_open, tenant.num_queued_requests, tenant.num_queued_tokens) == (0, 0, 0)


URGENT = {
    "priority": Demand(num_prompt_ids=1, priority=-1),
    "deadline": Demand(num_prompt_ids=1, deadline=9.0),
    "sjf": Demand(num_prompt_ids=1),
    "fair": Demand(num_prompt_ids=1),
}


@pytest.mark.parametrize("policy", URGENT)
def test_whom_the_policy_lets_overtake_is_not_refused_for_a_queue_that_it_passes(
    policy: str,
) -> None:
    """Two slots, held for 4 seconds each, and 8 who wait: 18 s for whoever stands behind all."""
    bounds = AdmissionBounds(num_slots=2, max_sequences=100, max_queue_seconds=5)
    order = queue_order(EngineConfig(scheduling_policy=policy))
    admission = Admission(Tenants(TenantLimits(), MappingProxyType({})), bounds, order)
    _learn_slot_seconds(admission, 4.0)
    admission.load = EngineStats(prompt_seconds_per_token=1e-3)
    slow = _ids(100, max_output_tokens=900)
    for _ in range(2):
        admission.started(_granted(admission, slow, "busy"), 0.0)
    admission.bounds = ROOMY
    for _ in range(8):
        _granted(admission, slow, "busy")
    admission.bounds = bounds
    assert _refused(admission, slow, "busy").code == "queue_wait_too_long"
    assert admission.refusal("calm", LEAST_DEMAND, 0.0) is None
    grant = _granted(admission, URGENT[policy], "calm")
    admission.tokenised(grant, 2, 0.1)
    admission.close(grant, 0, 0.2)
    assert admission.queued.all.num_sequences == 8
