"""Who is let in: the decision on a request before any work is done for it, in microseconds.

Owns the counts of what was admitted. Knows no HTTP, no clock (`now` is given, in seconds of the
same clock as deadlines) and no engine: it is told what was measured. A refused request costs its
tenant nothing.
"""

from __future__ import annotations

import math

from octavo.config.tenants import Tenants
from octavo.core.outputs import EngineStats
from octavo.errors import RefusalCode
from octavo.scheduler.admission.demand import AdmissionBounds, Demand, Grant, Refusal
from octavo.scheduler.admission.estimates import Estimates
from octavo.scheduler.admission.queue_order import ByArrival, Place, QueueOrder, Waiting
from octavo.scheduler.admission.tenant_table import Tenant, TenantTable
from octavo.scheduler.admission.token_bucket import TokenBucket
from octavo.scheduler.policy import Ticket

MAX_RETRY_SECONDS = 3600


class Admission:
    """One per server. A request is `admit`-ted or refused; then `tokenised`, `started` and
    `close`-d, of which only the last is sure to come."""

    def __init__(
        self, tenants: Tenants, bounds: AdmissionBounds, order: QueueOrder | None = None
    ) -> None:
        """`order`: of those who wait; that of arrival unless given."""
        self.bounds = bounds
        self.estimates = Estimates()
        self.load = EngineStats()
        self.num_sequences = 0
        self.queued = ByArrival()
        self._order = order or ByArrival()
        self._table = TenantTable(tenants)
        self._started: set[Grant] = set()

    def refusal(self, tenant: str, demand: Demand, now: float) -> Refusal | None:
        """Why a request is refused; None if it is not. Books nothing."""
        entry = self._table.get(tenant, now)
        prompt = self._num_prompt_tokens(demand)
        return (
            self._refused_by_rates(entry, prompt + self._num_output_tokens(demand), now)
            or self._refused_by_tenant_queue(entry, prompt, now)
            or self._refused_by_queue(demand.num_sequences, prompt, now)
            or self._refused_by_wait(entry, demand, prompt, now)
        )

    def admit(self, tenant: str, demand: Demand, now: float) -> Grant | Refusal:
        """Decide, and book what is admitted."""
        if refusal := self.refusal(tenant, demand, now):
            return refusal
        entry = self._table.get(tenant, now)
        prompt = self._num_prompt_tokens(demand)
        place = self._place(entry, demand, prompt, now)
        grant = Grant(entry, demand, place, self._num_output_tokens(demand))
        if entry.requests:
            entry.requests.take(1, now)
        self._charge_expected(grant, now)
        entry.num_open += 1
        self.num_sequences += grant.num_sequences
        self._enter_queue(grant)
        return grant

    def count(self, tenant: str, now: float) -> Refusal | None:
        """A request that does not reach the engine and still costs time, such as one to count
        tokens: the tenant's rate of requests is all that bounds it. Booked unless refused."""
        requests = self._table.get(tenant, now).requests
        if refusal := _refused_by_rate(requests, now):
            return refusal
        if requests:
            requests.take(1, now)
        return None

    def tokenised(self, grant: Grant, num_prompt_tokens: int, now: float) -> None:
        """The prompts' true size is known: charge for it in place of the estimate, and learn."""
        was_queued = grant.is_queued
        self._leave_queue(grant)
        arrival_time = grant.place.ticket.arrival_time
        grant.place = self._place(grant.tenant, grant.demand, num_prompt_tokens, arrival_time)
        grant.is_tokenised = True
        if was_queued:
            self._enter_queue(grant)
        self._charge_expected(grant, now)
        if grant.demand.num_text_bytes:
            num_text_tokens = num_prompt_tokens - grant.demand.num_prompt_ids
            self.estimates.tokenised(grant.demand.num_text_bytes, num_text_tokens)

    def started(self, grant: Grant, now: float) -> None:
        """Its first token has come: it waits no more. Idempotent."""
        if grant.is_queued:
            self._leave_queue(grant)
            num_tokens = grant.num_output_tokens / grant.demand.num_sequences
            grant.expected_end = now + num_tokens * self.estimates.token_seconds
            self._started.add(grant)

    def close(self, grant: Grant, num_output_tokens: int, now: float) -> None:
        """It is over, however it ended: charge for what was used. Idempotent."""
        if not grant.is_open:
            return
        grant.is_open = False
        self._started.discard(grant)
        self._leave_queue(grant)
        num_used = grant.num_prompt_tokens + num_output_tokens if grant.is_tokenised else 0
        self._charge(grant, num_used, now)
        grant.tenant.num_open -= 1
        self.num_sequences -= grant.num_sequences
        if grant.demand.max_output_tokens is None and num_output_tokens:
            self.estimates.answered(num_output_tokens, grant.demand.num_sequences)

    def queue_seconds(
        self, now: float, num_more_sequences: int = 1, ahead: Waiting | None = None
    ) -> float:
        """Predicted wait of newcomers for their turn, with `ahead` of those who wait before them
        (all unless given).

        Either slots are short: then the last of q sequences in line waits for q of them to come
        free, and N slots that are held for a mean time of S come free at the rate N / S (Little's
        law), though not before those that run are expected to end. Or the prompts that are not
        computed yet are in the way.
        """
        queued = self.queued.all
        num_behind = 0 if ahead is None else queued.num_sequences - ahead.num_sequences
        num_tokens_behind = 0 if ahead is None else queued.num_tokens - ahead.num_tokens
        num_in_line = self.num_sequences - num_behind + num_more_sequences - self._num_slots
        num_tokens = max(queued.num_tokens, self.load.num_waiting_tokens) - num_tokens_behind
        for_prompts = self._prompt_seconds(num_tokens)
        if num_in_line <= 0:
            return for_prompts
        for_slot = num_in_line / self._num_slots * self.estimates.slot_seconds
        return max(for_slot, for_prompts, self._seconds_to_end(num_in_line, now))

    def _seconds_to_end(self, num_sequences: int, now: float) -> float:
        """Until so many of those that run have ended, or all."""
        ends = sorted((grant.expected_end, grant.num_sequences) for grant in self._started)
        for end, num_ending in ends:
            num_sequences -= num_ending
            if num_sequences <= 0:
                return max(0.0, end - now)
        return max(0.0, ends[-1][0] - now) if ends else 0.0

    def _prompt_seconds(self, num_tokens: int) -> float:
        return num_tokens * self.load.prompt_seconds_per_token

    @property
    def _num_slots(self) -> int:
        """Where somebody waits for pages there are no more slots than sequences that run."""
        if self.load.num_waiting_by_reason.get("pages"):
            return max(1, min(self.load.num_running, self.bounds.num_slots))
        return self.bounds.num_slots

    def _refused_by_rates(self, tenant: Tenant, num_tokens: int, now: float) -> Refusal | None:
        if refusal := _refused_by_rate(tenant.requests, now):
            return refusal
        tokens = tenant.tokens
        if tokens and not tokens.covers(num_tokens, now):
            return _refusal(
                "rate_limit_tokens",
                f"the request asks for about {num_tokens} tokens; {tokens.rate:g} a second are "
                f"allowed, {tokens.burst:g} at once, {max(0.0, tokens.level(now)):.0f} are left",
                tokens.seconds_until(num_tokens, now),
            )
        return None

    def _refused_by_tenant_queue(
        self, tenant: Tenant, num_tokens: int, now: float
    ) -> Refusal | None:
        limits = tenant.limits
        most = limits.max_queued_requests
        if most is not None and tenant.num_queued_requests >= most:
            return _refusal(
                "tenant_queue_full",
                f"{tenant.num_queued_requests} requests of this tenant wait for their first token; "
                f"at most {most} are allowed",
                self.queue_seconds(now),
            )
        if _overflows(tenant.num_queued_tokens, num_tokens, limits.max_queued_tokens):
            return _refusal(
                "tenant_queue_tokens_full",
                f"{tenant.num_queued_tokens} prompt tokens of this tenant wait to be computed; "
                f"with about {num_tokens} more there would be more than {limits.max_queued_tokens}",
                self.queue_seconds(now),
            )
        return None

    def _refused_by_queue(self, num_sequences: int, num_tokens: int, now: float) -> Refusal | None:
        bounds = self.bounds
        num_beyond = self.num_sequences + min(num_sequences, bounds.max_sequences)
        num_beyond -= bounds.max_sequences
        if num_beyond > 0:
            return _refusal(
                "queue_full",
                f"{self.num_sequences} sequences are running or waiting; with {num_sequences} more "
                f"there would be more than {bounds.max_sequences}",
                num_beyond / self._num_slots * self.estimates.slot_seconds,
            )
        if _overflows(self.queued.all.num_tokens, num_tokens, bounds.max_queued_tokens):
            return _refusal(
                "queue_tokens_full",
                f"{self.queued.all.num_tokens} prompt tokens wait to be computed; with about "
                f"{num_tokens} more there would be more than {bounds.max_queued_tokens}",
                self.queue_seconds(now),
            )
        return None

    def _refused_by_wait(
        self, tenant: Tenant, demand: Demand, num_tokens: int, now: float
    ) -> Refusal | None:
        """An empty server refuses nobody for a prediction: what it learned may be out of date."""
        if self.num_sequences == 0:
            return None
        ahead = self._order.ahead_of(self._place(tenant, demand, num_tokens, now))
        wait = self.queue_seconds(now, demand.num_sequences, ahead)
        most = self.bounds.max_queue_seconds
        if most is not None and wait > most:
            return _refusal(
                "queue_wait_too_long",
                f"the request would wait about {wait:.1f} seconds; at most {most:g} are allowed",
                wait - most,
            )
        if demand.deadline is None:
            return None
        seconds = wait + self._prompt_seconds(num_tokens)
        seconds += demand.min_output_tokens * self.estimates.token_seconds
        left = demand.deadline - now
        if seconds > left:
            return _refusal(
                "deadline_unreachable",
                f"the answer would take about {seconds:.1f} seconds or more; {left:.1f} are left "
                "to the deadline",
                wait,
            )
        return None

    def _num_prompt_tokens(self, demand: Demand) -> int:
        return demand.num_prompt_ids + self.estimates.num_prompt_tokens(demand.num_text_bytes)

    def _num_output_tokens(self, demand: Demand) -> int:
        most = demand.max_output_tokens
        each = self.estimates.num_output_tokens if most is None else most
        return each * demand.num_sequences

    def _place(
        self, tenant: Tenant, demand: Demand, num_prompt_tokens: int, arrival_time: float
    ) -> Place:
        """As the scheduling policy will see the request."""
        num_new_tokens = self._num_output_tokens(demand)
        deadline = math.inf if demand.deadline is None else demand.deadline
        ticket = Ticket(
            request_id="",
            index=0,
            tenant=tenant.name,
            priority=tenant.limits.min_priority if demand.is_unread else demand.priority,
            arrival_time=arrival_time,
            num_prompt_tokens=num_prompt_tokens,
            max_new_tokens=num_new_tokens,
            deadline=arrival_time if demand.is_unread else deadline,
        )
        return Place(
            ticket=ticket,
            num_sequences=min(demand.num_sequences, self.bounds.max_sequences),
            weight=tenant.limits.weight,
            job_seconds=self._prompt_seconds(num_prompt_tokens + num_new_tokens),
        )

    def _enter_queue(self, grant: Grant) -> None:
        grant.is_queued = True
        grant.tenant.num_queued_requests += 1
        grant.tenant.num_queued_tokens += grant.num_prompt_tokens
        self.queued.add(grant.place)
        self._order.add(grant.place)

    def _leave_queue(self, grant: Grant) -> None:
        """Idempotent."""
        if not grant.is_queued:
            return
        grant.is_queued = False
        grant.tenant.num_queued_requests -= 1
        grant.tenant.num_queued_tokens -= grant.num_prompt_tokens
        self.queued.remove(grant.place)
        self._order.remove(grant.place)

    def _charge_expected(self, grant: Grant, now: float) -> None:
        """Not more than the burst: what a larger request uses beyond becomes a debt at its end."""
        if tokens := grant.tenant.tokens:
            expected = grant.num_prompt_tokens + grant.num_output_tokens
            self._charge(grant, min(expected, tokens.burst), now)

    def _charge(self, grant: Grant, num_tokens: float, now: float) -> None:
        """So many in all, in place of what was charged so far."""
        if grant.tenant.tokens is None:
            return
        more = num_tokens - grant.num_charged_tokens
        grant.num_charged_tokens = num_tokens
        if more > 0:
            grant.tenant.tokens.take(more, now)
        else:
            grant.tenant.tokens.give_back(-more, now)


def _refused_by_rate(requests: TokenBucket | None, now: float) -> Refusal | None:
    if requests is None or requests.covers(1, now):
        return None
    return _refusal(
        "rate_limit_requests",
        f"{requests.rate:g} requests a second are allowed, {requests.burst:g} at once",
        requests.seconds_until(1, now),
    )


def _overflows(num_there: int, num_more: int, limit: int | None) -> bool:
    return limit is not None and num_there > 0 and num_there + num_more > limit


def _refusal(code: RefusalCode, message: str, seconds: float) -> Refusal:
    """Whole seconds, at least one: that is what `Retry-After` can say."""
    return Refusal(code, message, min(MAX_RETRY_SECONDS, max(1, math.ceil(seconds))))
