"""Who is admitted next: those who ran before, then whoever the policy puts first.

Owns the waiting sequences and their tickets. Must not know pages, budgets or the running ones.

Sequences that were preempted, and siblings whose prompt has been computed, have been admitted
already: they stand before everybody else, in the order of their first admission. Behind them the
policy decides. With a reserved share there are two policies: one orders all that wait, the other
those of high priority alone; when others may take no more, the second says who comes next.
"""

from __future__ import annotations

import bisect
from collections import Counter

from octavo.core.request import EngineRequest
from octavo.core.sequence import Sequence
from octavo.kv.kv_manager import KvManager
from octavo.scheduler.policy import PolicyFactory, SchedulingPolicy, Ticket
from octavo.scheduler.step_time import StepTimeModel


def is_high(sequence: Sequence) -> bool:
    """The class for which a share can be reserved: priorities below the default, 0."""
    return sequence.request.priority < 0


class ReadyFacts:
    """What policies may ask (`policy.PolicyFacts`)."""

    def __init__(self, kv: KvManager, step_time: StepTimeModel, step_tokens: int) -> None:
        self._kv = kv
        self._step_time = step_time
        self._step_tokens = step_tokens
        self._weights: dict[str, float] = {}
        self._num_live: Counter[str] = Counter()  # by tenant
        self.sequences: dict[Ticket, Sequence] = {}

    def num_cached_tokens(self, ticket: Ticket) -> int:
        return self._kv.num_cached_tokens(self.sequences[ticket])

    def weight(self, tenant: str) -> float:
        return self._weights.get(tenant, 1.0)

    def seconds(self, num_prompt_tokens: int, num_new_tokens: int = 0) -> float:
        prompt = self._step_time.seconds_to_compute(num_prompt_tokens, self._step_tokens)
        return prompt + num_new_tokens * self._step_time.mean_seconds

    def enter(self, request: EngineRequest) -> None:
        """A sequence of this request lives from now on. Its tenant's latest weight counts."""
        self._num_live[request.tenant] += 1
        self._weights[request.tenant] = request.tenant_weight

    def leave(self, request: EngineRequest) -> None:
        """A sequence of this request has ended. Nothing is kept of a tenant without any."""
        self._num_live[request.tenant] -= 1
        if not self._num_live[request.tenant]:
            del self._num_live[request.tenant], self._weights[request.tenant]


class ReadyQueue:
    """Every operation costs what the policy's does, and O(log waiting)."""

    def __init__(self, make_policy: PolicyFactory, facts: ReadyFacts, *, reserves: bool) -> None:
        self._facts = facts
        self._policy = make_policy(facts)
        self._high_policy: SchedulingPolicy | None = make_policy(facts) if reserves else None
        self.charge = self._policy.charge if self._high_policy is None else self._charge_both
        """(ticket, num_tokens): so many tokens were computed for an admitted sequence."""
        self._tickets: dict[Sequence, Ticket] = {}
        self._returning: list[tuple[tuple[int, int], Sequence]] = []  # sorted
        self.num_by_tenant: Counter[str] = Counter()
        """Newcomers."""
        self.num_prompt_tokens = 0
        """Of newcomers."""

    def __len__(self) -> int:
        return len(self._tickets) + len(self._returning)

    @property
    def num_returning(self) -> int:
        return len(self._returning)

    def add(self, sequence: Sequence, ticket: Ticket, now: float) -> None:
        """A newcomer."""
        self._tickets[sequence] = ticket
        self._facts.sequences[ticket] = sequence
        self.num_by_tenant[ticket.tenant] += 1
        self.num_prompt_tokens += ticket.num_prompt_tokens
        self._policy.add(ticket, now)
        if self._high_policy is not None and is_high(sequence):
            self._high_policy.add(ticket, now)

    def put_back(self, sequence: Sequence) -> None:
        """It was admitted before, or its sibling was: it goes before all newcomers."""
        bisect.insort(self._returning, (sequence.seniority, sequence), key=_seniority)

    def head(self, now: float, *, only_high: bool = False) -> Sequence | None:
        """Who is next, of all or of the high class."""
        for _, sequence in self._returning:
            if not only_high or is_high(sequence):
                return sequence
        policy = self._high_policy if only_high else self._policy
        ticket = None if policy is None else policy.head(now)
        return None if ticket is None else self._facts.sequences[ticket]

    def remove(self, sequence: Sequence) -> None:
        """It is admitted or gave up. Does nothing if it is not here."""
        ticket = self._tickets.pop(sequence, None)
        if ticket is None:
            self._returning = [entry for entry in self._returning if entry[1] is not sequence]
            return
        self._policy.remove(ticket)
        if self._high_policy is not None:
            self._high_policy.remove(ticket)
        self._forget(ticket)

    def _charge_both(self, ticket: Ticket, num_tokens: int) -> None:
        self._policy.charge(ticket, num_tokens)
        if self._high_policy is not None:
            self._high_policy.charge(ticket, num_tokens)

    def _forget(self, ticket: Ticket) -> None:
        del self._facts.sequences[ticket]
        self.num_prompt_tokens -= ticket.num_prompt_tokens
        self.num_by_tenant[ticket.tenant] -= 1
        if not self.num_by_tenant[ticket.tenant]:
            del self.num_by_tenant[ticket.tenant]


def _seniority(entry: tuple[tuple[int, int], Sequence]) -> tuple[int, int]:
    return entry[0]
