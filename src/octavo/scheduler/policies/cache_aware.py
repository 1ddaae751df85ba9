"""Longest cached prefix first, within a window of the oldest. Looks at the prefix cache alone.

Who finds most of its prompt in the prefix cache costs least, and uses pages that may be gone later.
Among the `WINDOW` tickets that came first, that one goes.

Nobody starves: a ticket that was overtaken `MAX_OVERTAKEN` times is next, the oldest such first.
Whoever overtakes a ticket overtakes the older ones too, so the oldest was overtaken most often, and
it suffices to look at that one: nobody is overtaken more than `MAX_OVERTAKEN` times in all.

Longest prefix first: SGLang's order (Zheng et al., 2024, arXiv:2312.07104, section 3), which has no
bound on how long others wait.
"""

from __future__ import annotations

from collections import OrderedDict
from itertools import islice

from octavo.scheduler.policy import CONTRACT_VERSION, PolicyFacts, Ticket

WINDOW = 16
MAX_OVERTAKEN = 32


class CacheAware:
    """`head` asks the prefix cache about `window` tickets, once for each `now` and each removal;
    all else is O(window)."""

    contract_version = CONTRACT_VERSION

    def __init__(
        self,
        facts: PolicyFacts,
        *,
        window: int = WINDOW,
        max_overtaken: int = MAX_OVERTAKEN,
    ) -> None:
        self._facts = facts
        self._window = window
        self._max_overtaken = max_overtaken
        self._overtaken: OrderedDict[Ticket, int] = OrderedDict()  # how often; by arrival
        self._head: Ticket | None = None  # as chosen at `_chosen_at`
        self._chosen_at = 0.0

    def __len__(self) -> int:
        return len(self._overtaken)

    def add(self, ticket: Ticket, now: float) -> None:  # noqa: ARG002
        if len(self._overtaken) < self._window:
            self._head = None
        self._overtaken[ticket] = 0

    def remove(self, ticket: Ticket) -> None:
        if ticket is self._head:  # who leaves from elsewhere has given up, and overtook nobody
            self._count_overtaken_by(ticket)
        if self._overtaken.pop(ticket, None) is not None:
            self._head = None

    def head(self, now: float) -> Ticket | None:
        if self._head is None or now != self._chosen_at:
            self._head = self._choose()
            self._chosen_at = now
        return self._head

    def charge(self, ticket: Ticket, num_tokens: int) -> None:
        """Changes nothing."""

    def _choose(self) -> Ticket | None:
        oldest = next(iter(self._overtaken), None)
        if oldest is None or self._overtaken[oldest] >= self._max_overtaken:
            return oldest
        return max(islice(self._overtaken, self._window), key=self._facts.num_cached_tokens)

    def _count_overtaken_by(self, ticket: Ticket) -> None:
        for older in islice(self._overtaken, self._window):
            if older is ticket:
                return
            self._overtaken[older] += 1
