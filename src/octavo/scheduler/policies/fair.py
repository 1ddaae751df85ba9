"""Weighted fair share of served tokens among tenants. Inside a tenant: first come, first served.

Every tenant has a *virtual time*: tokens served to it, divided by its weight. The tenant that is
least ahead is next. So tenants that always have something waiting get tokens in proportion to
their weights, and a flood from one delays the others by about one request.

*Paying.* What is computed for a tenant is known by and by, admission is now: without more, all
slots would go to one tenant before its first token is charged. So admission charges the prompt, as
far as it is not cached, in advance. That is a credit of the tenant, which pays for the next tokens
computed for it; what was charged in advance and never computed is thereby given back.

*Entering.* Who has nothing waiting saves up a claim to `MAX_CLAIM` tokens at most, so that one who
asks for less than its share is served at once though its requests come two at a time. When a tenant
comes back, its virtual time is at least that much before the one that the last admitted tenant had
at its admission; if nobody waits, before the one that this tenant has now. A new tenant has no
claim: it begins at that time itself.

*Nobody starves.* Each admission of others is worth one token to a tenant that waits: the order is
that of `virtual time + number of admissions before its last turn`. A tenant that is L tokens ahead
of the newcomers (per weight) is therefore overtaken by at most about L of their requests, even if
ever new names keep coming, each at the virtual time at which tenants enter. Without this they
could keep it waiting forever. In the long run shares are not changed by it: with g admissions from
turn to turn and s tokens per request, a tenant of weight w moves up by s/w + g per turn; all move
up at the same rate per admission, r = (s/w + g)/g, so g is proportional to s/w.

Start-time fair queueing: Goyal, Vin, Cheng, SIGCOMM 1996 (virtual time of the one in service).
For language models, where the cost is known afterwards: Sheng et al., Fairness in serving large
language models, OSDI 2024 (virtual token counter).
"""

from __future__ import annotations

import heapq
import itertools
from collections import OrderedDict
from dataclasses import dataclass, field

from octavo.scheduler.policy import CONTRACT_VERSION, PolicyFacts, Ticket

MAX_CLAIM = 2048
"""Tokens that a tenant may catch up with after a pause."""
_MIN_IDLE_TENANTS = 64


@dataclass(slots=True, eq=False)
class _Tenant:
    """`credit`: tokens charged in advance. `turn`: admissions before its last turn, or before it
    came. `tickets`: those that wait, in the order of their numbers."""

    virtual_time: float
    credit: int = 0
    turn: int = 0
    tickets: OrderedDict[Ticket, int] = field(default_factory=OrderedDict)
    is_in_order: bool = False

    @property
    def rank(self) -> tuple[float, int]:
        """Only grows, so an entry that is out of date stands too far in front, never too far back.
        Equal times: whose first ticket is older."""
        return self.virtual_time + self.turn, next(iter(self.tickets.values()))


class Fair:
    """Every call is O(log tenants), amortised, whatever the number of tickets."""

    contract_version = CONTRACT_VERSION

    def __init__(self, facts: PolicyFacts, *, max_claim: int = MAX_CLAIM) -> None:
        self._facts = facts
        self._max_claim = max_claim
        self._tenants: dict[str, _Tenant] = {}
        self._order: list[tuple[tuple[float, int], _Tenant]] = []  # heap; entries may be outdated
        self._num_waiting = 0
        self._num_admitted = 0
        self._last_admitted: _Tenant | None = None
        self._entry_time = 0.0
        self._max_tenants = _MIN_IDLE_TENANTS
        self._numbers = itertools.count()

    def __len__(self) -> int:
        return self._num_waiting

    def add(self, ticket: Ticket, now: float) -> None:  # noqa: ARG002
        if self._num_waiting == 0 and self._last_admitted is not None:
            self._entry_time = max(self._entry_time, self._last_admitted.virtual_time)
        tenant = self._tenant(ticket.tenant)
        if not tenant.tickets:
            self._enter(tenant, ticket.tenant)
        tenant.tickets[ticket] = next(self._numbers)
        self._num_waiting += 1
        if not tenant.is_in_order:
            tenant.is_in_order = True
            heapq.heappush(self._order, (tenant.rank, tenant))

    def remove(self, ticket: Ticket) -> None:
        tenant = self._tenants.get(ticket.tenant)
        if tenant is None or ticket not in tenant.tickets:
            return
        if self._first() is ticket:  # who leaves from elsewhere has given up
            self._admit(tenant, ticket)
        del tenant.tickets[ticket]
        self._num_waiting -= 1
        self._forget_idle()

    def head(self, now: float) -> Ticket | None:  # noqa: ARG002
        return self._first()

    def charge(self, ticket: Ticket, num_tokens: int) -> None:
        tenant = self._tenant(ticket.tenant)
        num_prepaid = min(tenant.credit, num_tokens)
        tenant.credit -= num_prepaid
        tenant.virtual_time += (num_tokens - num_prepaid) / self._facts.weight(ticket.tenant)

    def _first(self) -> Ticket | None:
        """Brings the top of the heap up to date until it stays the top."""
        while self._order:
            rank, tenant = self._order[0]
            if not tenant.tickets:
                heapq.heappop(self._order)
                tenant.is_in_order = False
            elif rank != tenant.rank:
                heapq.heapreplace(self._order, (tenant.rank, tenant))
            else:
                return next(iter(tenant.tickets))
        return None

    def _enter(self, tenant: _Tenant, name: str) -> None:
        earliest = self._entry_time - self._max_claim / self._facts.weight(name)
        if tenant.virtual_time < earliest:
            tenant.virtual_time = earliest
            tenant.credit = 0  # of a past that is forgiven; else it would buy service twice
        tenant.turn = self._num_admitted

    def _admit(self, tenant: _Tenant, ticket: Ticket) -> None:
        self._entry_time = max(self._entry_time, tenant.virtual_time)
        num_tokens = max(1, ticket.num_prompt_tokens - self._facts.num_cached_tokens(ticket))
        tenant.virtual_time += num_tokens / self._facts.weight(ticket.tenant)
        tenant.credit += num_tokens
        self._num_admitted += 1
        tenant.turn = self._num_admitted
        self._last_admitted = tenant

    def _tenant(self, name: str) -> _Tenant:
        tenant = self._tenants.get(name)
        if tenant is None:
            tenant = self._tenants[name] = _Tenant(self._entry_time)
        return tenant

    def _forget_idle(self) -> None:
        """Who has nothing waiting and is not ahead would enter like a stranger, and becomes one.

        Done when the tenants have doubled, so that a removal costs O(1), amortised.
        """
        if len(self._tenants) <= self._max_tenants:
            return
        self._tenants = {
            name: tenant
            for name, tenant in self._tenants.items()
            if tenant.is_in_order or tenant.virtual_time > self._entry_time
        }
        self._max_tenants = max(_MIN_IDLE_TENANTS, 2 * len(self._tenants))
