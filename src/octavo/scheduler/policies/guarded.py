"""A policy that may be wrong, in a scheduler that must go on. For policies from outside.

Keeps its own list of who waits. At the first exception or impossible answer it says so in the log,
once, and from then on serves all that it holds, and all that come, in the order of their arrival.
A call that never returns is beyond it.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable

from octavo.scheduler.policy import CONTRACT_VERSION, SchedulingPolicy, Ticket

logger = logging.getLogger(__name__)


class WrongAnswer(Exception):
    """The policy named a head that does not wait, or none while somebody waits."""


class GuardedPolicy:
    """`policy` must be empty. Adds O(1) to each call."""

    contract_version = CONTRACT_VERSION

    def __init__(self, policy: SchedulingPolicy) -> None:
        self._name = type(policy).__name__
        self._policy: SchedulingPolicy | None = policy
        self._waiting: OrderedDict[Ticket, None] = OrderedDict()
        self._head: Ticket | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def has_failed(self) -> bool:
        return self._policy is None

    def add(self, ticket: Ticket, now: float) -> None:
        self._waiting[ticket] = None
        self._try(lambda policy: policy.add(ticket, now))

    def remove(self, ticket: Ticket) -> None:
        self._waiting.pop(ticket, None)
        self._try(lambda policy: policy.remove(ticket))

    def head(self, now: float) -> Ticket | None:
        self._try(lambda policy: self._check(policy.head(now)))
        return self._head if self._policy is not None else next(iter(self._waiting), None)

    def charge(self, ticket: Ticket, num_tokens: int) -> None:
        self._try(lambda policy: policy.charge(ticket, num_tokens))

    def _check(self, head: Ticket | None) -> None:
        if head not in self._waiting and (head is not None or self._waiting):
            raise WrongAnswer(f"head is {head!r}, and {len(self._waiting)} others wait")
        self._head = head

    def _try(self, call: Callable[[SchedulingPolicy], None]) -> None:
        if self._policy is None:
            return
        try:
            call(self._policy)
        except Exception:
            self._policy = None
            logger.exception(
                "the scheduling policy %s has failed; requests are served in the order of their"
                " arrival from now on",
                self._name,
            )
