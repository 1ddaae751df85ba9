"""How long answers have been lately, learned from what a policy hears. Knows no clock."""

from __future__ import annotations

from math import ceil

from octavo.scheduler.policy import Ticket


class AnswerLength:
    """Mean tokens of the answers to about the last WINDOW admitted tickets.

    Nobody tells a policy that an answer has ended. But each admission begins one, and a charge of
    one token is one token of an answer (prompts come in larger chunks), so mean = tokens over
    admissions. Both fade by 1/WINDOW with each admission. It begins as if some had been seen.
    """

    WINDOW = 256
    FIRST_GUESS = 128

    def __init__(self) -> None:
        self._num_answers = self.WINDOW / 16
        self._num_tokens = self._num_answers * self.FIRST_GUESS

    @property
    def mean(self) -> float:
        return self._num_tokens / self._num_answers

    def expected(self, ticket: Ticket) -> int:
        """Tokens of its answer: as long as answers have been lately, or its limit."""
        return ceil(min(ticket.max_new_tokens, self.mean))

    def note_admission(self) -> None:
        kept = 1 - 1 / self.WINDOW
        self._num_answers = self._num_answers * kept + 1
        self._num_tokens *= kept

    def note_charge(self, num_tokens: int) -> None:
        if num_tokens == 1:
            self._num_tokens += 1
