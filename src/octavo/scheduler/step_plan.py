"""One step under construction: hands out the step's tokens, logit rows and seconds.

Must not know pages or queues: it is told which sequence comes next and says how much of it fits.
"""

from __future__ import annotations

from dataclasses import dataclass

from octavo.core.schedule import ScheduledSequence, ScheduledStep
from octavo.core.sequence import Sequence
from octavo.core.step_load import num_attended_tokens
from octavo.scheduler.step_time import StepTimeModel, StepWork

MIN_CHUNK_TOKENS = 4
"""The first prompt of a step gets so many tokens whatever they cost: prompts always progress. (16
of them behind a context of 3000 tokens take Qwen2.5-0.5B 50 ms on two cores, two whole steps.)"""


def num_wanted_tokens(sequence: Sequence) -> int:
    """Tokens that are known but not computed: 1 while it decodes, more while it reads a prompt."""
    return len(sequence.token_ids) - sequence.num_computed_tokens


def is_decoding(sequence: Sequence) -> bool:
    """Whether it wants the one token that a running answer wants. It never waits for one."""
    return num_wanted_tokens(sequence) == 1


def is_answering(sequence: Sequence) -> bool:
    """Whether it decodes and has computed its prompt: all that the step gives is a drawn token."""
    return sequence.num_prompt_tokens <= sequence.num_computed_tokens == len(sequence.token_ids) - 1


def wants_prompt_logprobs(sequence: Sequence) -> bool:
    """Whether the logits of its prompt's rows are still wanted: of sequence 0, until it answers."""
    return (
        sequence.params.prompt_logprobs is not None
        and sequence.index == 0
        and sequence.num_output_tokens == 0
    )


def reads_prefix(sequence: Sequence) -> bool:
    """Whether it may begin with cached pages: not where something is made of every token's row."""
    pooling = sequence.request.pooling
    needs_every_token = pooling is not None and pooling.needs_every_token
    return not needs_every_token and not wants_prompt_logprobs(sequence)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepLimits:
    """What one step may hold. `max_logit_rows` bounds the rows whose logits are computed: one per
    sampled token, and every row of a chunk that wants prompt logprobs (a row is a whole vocabulary
    of floats). `max_unreserved_tokens` bounds what is not of the high class. `max_seconds` bounds
    the predicted time of a step in which somebody decodes; others have nobody to keep waiting.
    """

    max_tokens: int
    max_logit_rows: int
    max_unreserved_tokens: int
    max_seconds: float | None = None


class StepPlan:
    """`add` what `fits`, decoding sequences first: they are never refused."""

    def __init__(self, limits: StepLimits, step_time: StepTimeModel) -> None:
        self.step = ScheduledStep()
        self.has_cut = False
        """Whether a prompt got less than it wants."""
        self._limits = limits
        self._step_time = step_time
        self._rows_left = limits.max_logit_rows
        self._unreserved_left = limits.max_unreserved_tokens
        self._num_attended_tokens = 0
        self._num_decodes = 0
        self._has_prompt = False

    @property
    def _tokens_left(self) -> int:
        return self._limits.max_tokens - self.step.num_tokens

    @property
    def work(self) -> StepWork:
        """How big the step is so far."""
        return StepWork(self.step.num_tokens, len(self.step.sequences), self._num_attended_tokens)

    def fits(self, sequence: Sequence, *, is_reserved: bool) -> int:
        """How many of its wanted tokens the step can take; 0 if none."""
        num_wanted = num_wanted_tokens(sequence)
        limit = min(num_wanted, self._tokens_left)
        if not is_reserved:
            limit = min(limit, self._unreserved_left)
        if wants_prompt_logprobs(sequence):
            limit = min(limit, self._rows_left)
        elif limit == num_wanted and self._rows_left == 0 and _samples(sequence):
            limit -= 1
        return self._within_time(sequence, limit) if num_wanted > 1 else limit

    def add_answering(self, sequences: list[Sequence], num_reserved: int) -> None:
        """Schedule a token of each of those who answer, `num_reserved` of the high class.

        They are nearly all of most steps, and most of what `add` looks at is settled for them."""
        num_tokens = len(sequences)
        starts = [sequence.num_computed_tokens for sequence in sequences]
        self.step.sequences += [
            ScheduledSequence(sequence, start, 1, samples=True)
            for sequence, start in zip(sequences, starts, strict=True)
        ]
        self.step.num_tokens += num_tokens
        self._num_attended_tokens += sum(starts) + num_tokens
        self._rows_left -= num_tokens
        self._unreserved_left -= num_tokens - num_reserved
        self._num_decodes += num_tokens

    def add(self, sequence: Sequence, num_tokens: int, *, is_reserved: bool) -> None:
        """Schedule its next `num_tokens`, at least one, and no more than fit."""
        assert num_tokens >= 1, f"{sequence.key} is scheduled for nothing"
        start = sequence.num_computed_tokens
        num_wanted = len(sequence.token_ids) - start
        with_logprobs = wants_prompt_logprobs(sequence)
        samples = num_tokens == num_wanted and _samples(sequence)
        step = self.step
        step.sequences.append(
            ScheduledSequence(sequence, start, num_tokens, samples, with_logprobs)
        )
        step.num_tokens += num_tokens
        self._num_attended_tokens += num_attended_tokens(start, num_tokens)
        self._rows_left -= num_tokens if with_logprobs else samples
        if not is_reserved:
            self._unreserved_left -= num_tokens
        if num_wanted == 1:
            self._num_decodes += 1
        else:
            self._has_prompt = True
            self.has_cut |= num_tokens < num_wanted

    def _within_time(self, sequence: Sequence, limit: int) -> int:
        """A chunk that keeps the step's predicted time below its target, if there is one."""
        max_seconds = self._limits.max_seconds
        if max_seconds is None or self._num_decodes == 0 or limit == 0:
            return limit
        start = sequence.num_computed_tokens
        chunk = self._step_time.largest_chunk(self.work, start, limit, max_seconds)
        return chunk if self._has_prompt else max(chunk, min(limit, MIN_CHUNK_TOKENS))


def _samples(sequence: Sequence) -> bool:
    """Whether a token is drawn when all its tokens are computed."""
    return sequence.params.max_tokens != 0
