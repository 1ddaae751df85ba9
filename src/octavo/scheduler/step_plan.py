"""One step under construction: hands out the step's budgets of tokens and of logit rows.

Must not know pages or queues: it is told which sequence comes next and says how much of it fits.
"""

from __future__ import annotations

from octavo.core.schedule import ScheduledSequence, ScheduledStep
from octavo.core.sequence import Sequence


def num_wanted_tokens(sequence: Sequence) -> int:
    """Tokens that are known but not computed: 1 while it decodes, more while it reads a prompt."""
    return sequence.num_tokens - sequence.num_computed_tokens


def wants_prompt_logprobs(sequence: Sequence) -> bool:
    """Whether the logits of its prompt's rows are still wanted: of sequence 0, until it answers."""
    return (
        sequence.params.prompt_logprobs is not None
        and sequence.index == 0
        and sequence.num_output_tokens == 0
    )


class StepPlan:
    """`max_logit_rows` bounds the rows whose logits are computed: one per sampled token, and every
    row of a chunk that wants prompt logprobs (a row is a whole vocabulary of floats)."""

    def __init__(self, max_tokens: int, max_logit_rows: int) -> None:
        self.step = ScheduledStep()
        self._tokens_left = max_tokens
        self._rows_left = max_logit_rows

    @property
    def is_full(self) -> bool:
        return self._tokens_left == 0 or self._rows_left == 0

    def add(self, sequence: Sequence) -> None:
        """Schedule as many of its wanted tokens as the budgets allow, at least one.

        The plan must not be full.
        """
        num_wanted = num_wanted_tokens(sequence)
        num_tokens = min(num_wanted, self._tokens_left)
        with_logprobs = wants_prompt_logprobs(sequence)
        if with_logprobs:
            num_tokens = min(num_tokens, self._rows_left)
        samples = num_tokens == num_wanted and sequence.params.max_tokens != 0
        self.step.sequences.append(
            ScheduledSequence(
                sequence, sequence.num_computed_tokens, num_tokens, samples, with_logprobs
            )
        )
        self.step.num_tokens += num_tokens
        self._tokens_left -= num_tokens
        self._rows_left -= num_tokens if with_logprobs else int(samples)
