"""Shortest job first, with linear ageing: least mean waiting, as long as work can be foreseen.

Work is foreseen when a ticket arrives: the tokens of its prompt that the prefix cache does not
hold, and an answer as long as answers have been lately, or as its limit if that is shorter. In
seconds, by the measured speed of prompts, it is `job`. The order is that of

    arrival + PATIENCE * job,

which is shortest job first with a waiting ticket's job shrinking linearly (see `priority`).

Nobody starves: a ticket is overtaken only by shorter jobs that arrived within `PATIENCE * job`
after it. So nobody waits longer, for others' sake, than in proportion to the work it brings.

Least mean waiting: W. E. Smith, Various optimizers for single-stage production, 1956.
"""

from __future__ import annotations

from octavo.scheduler.policies.answer_length import AnswerLength
from octavo.scheduler.policies.ticket_heap import TicketHeap
from octavo.scheduler.policy import CONTRACT_VERSION, PolicyFacts, Ticket

PATIENCE = 100.0
"""Who brings a second of work lets shorter jobs go before for so many seconds: about as many as
there are jobs in a queue of the usual length, so that within it the order is that of work alone."""


def aged_job(ticket: Ticket, job_seconds: float, patience: float = PATIENCE) -> float:
    """Who has less goes first."""
    return ticket.arrival_time + patience * job_seconds


class Sjf:
    """`add` and `head` are O(log waiting), amortised; `add` asks the prefix cache once."""

    contract_version = CONTRACT_VERSION

    def __init__(self, facts: PolicyFacts, *, patience: float = PATIENCE) -> None:
        self._facts = facts
        self._patience = patience
        self._answers = AnswerLength()
        self._heap = TicketHeap()

    def __len__(self) -> int:
        return len(self._heap)

    def expected_tokens(self, ticket: Ticket) -> int:
        num_prompt_tokens = ticket.num_prompt_tokens - self._facts.num_cached_tokens(ticket)
        return num_prompt_tokens + self._answers.expected(ticket)

    def add(self, ticket: Ticket, now: float) -> None:  # noqa: ARG002
        job_seconds = self._facts.seconds(self.expected_tokens(ticket))
        self._heap.put(ticket, aged_job(ticket, job_seconds, self._patience))

    def remove(self, ticket: Ticket) -> None:
        was_head = self._heap.first() is ticket  # who leaves from elsewhere has given up
        if self._heap.discard(ticket) and was_head:
            self._answers.note_admission()

    def head(self, now: float) -> Ticket | None:  # noqa: ARG002
        return self._heap.first()

    def charge(self, ticket: Ticket, num_tokens: int) -> None:  # noqa: ARG002
        self._answers.note_charge(num_tokens)
