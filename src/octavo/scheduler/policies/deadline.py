"""Earliest deadline first, among those that can still make it. Owns nothing but that order.

Earliest deadline first meets all deadlines whenever that is possible, but under overload it serves
the hopeless before those it could have saved. So the first in line is asked whether its prompt and
an answer of the usual length can be computed in time; if not, it steps behind the others, once, to
where it would be had it arrived now without a deadline. (The scheduler ends it at its deadline; a
policy does not.)

A ticket without deadline, or with one far away, is due `horizon_seconds` after its arrival. That
is an order only: it does not become hopeless by missing it.

Nobody starves: every ticket has a due time of at most `horizon_seconds` after its arrival, or after
the moment at which it stepped back; and whoever arrives after that time is due later.

Liu, Layland, Scheduling algorithms for multiprogramming in a hard-real-time environment, JACM 1973.
Under overload: Buttazzo, Hard Real-Time Computing Systems, chapter on overload conditions.
"""

from __future__ import annotations

from octavo.scheduler.policies.answer_length import AnswerLength
from octavo.scheduler.policies.ticket_heap import TicketHeap
from octavo.scheduler.policy import CONTRACT_VERSION, PolicyFacts, Ticket


def due_time(ticket: Ticket, horizon_seconds: float) -> float:
    """Who is due earlier goes first."""
    return min(ticket.deadline, ticket.arrival_time + horizon_seconds)


class Deadline:
    """`add` and `head` are O(log waiting), amortised: a ticket steps back at most once."""

    contract_version = CONTRACT_VERSION

    def __init__(self, facts: PolicyFacts, *, horizon_seconds: float) -> None:
        self._facts = facts
        self._horizon_seconds = horizon_seconds
        self._heap = TicketHeap()
        self._late: set[Ticket] = set()
        self._answers = AnswerLength()

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, ticket: Ticket, now: float) -> None:  # noqa: ARG002
        self._heap.put(ticket, due_time(ticket, self._horizon_seconds))

    def remove(self, ticket: Ticket) -> None:
        was_head = self._heap.first() is ticket  # who leaves from elsewhere has given up
        if self._heap.discard(ticket) and was_head:
            self._answers.note_admission()
        self._late.discard(ticket)

    def head(self, now: float) -> Ticket | None:
        while (ticket := self._heap.first()) is not None:
            if ticket in self._late or self._can_make_it(ticket, now):
                return ticket
            self._late.add(ticket)
            self._heap.put(ticket, now + self._horizon_seconds)
        return None

    def charge(self, ticket: Ticket, num_tokens: int) -> None:  # noqa: ARG002
        self._answers.note_charge(num_tokens)

    def _can_make_it(self, ticket: Ticket, now: float) -> bool:
        """The prefix cache is asked only if it matters."""
        seconds_left = ticket.deadline - now
        num_new_tokens = self._answers.expected(ticket)
        if self._facts.seconds(ticket.num_prompt_tokens, num_new_tokens) <= seconds_left:
            return True
        num_tokens = ticket.num_prompt_tokens - self._facts.num_cached_tokens(ticket)
        return self._facts.seconds(num_tokens, num_new_tokens) <= seconds_left
