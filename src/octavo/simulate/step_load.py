"""What a step asks of a machine, as a few sums over its rows. Knows no machine."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from octavo.core.schedule import ScheduledStep


class StepLoad(NamedTuple):
    """`num_decode_attended` sums, over the rows that are one token of their sequence, how many
    tokens each looks at; `num_prompt_attended` the same over the rows of longer chunks.
    `num_context_tokens`: keys that are read at least once. `num_logit_rows`: tokens drawn."""

    num_tokens: int
    num_sequences: int
    num_logit_rows: int
    num_decode_attended: int
    num_prompt_attended: int
    num_context_tokens: int


class StepTimes(Protocol):
    """A machine with a model on it, as a simulation sees it."""

    def seconds(self, load: StepLoad) -> float:
        """Time of one step. Above 0, and not less for a larger load."""

    @property
    def request_seconds(self) -> float:
        """What each request spends outside steps: HTTP, tokenising, messages. Delays it, once."""

    @property
    def assumptions(self) -> list[str]:
        """What is taken for granted, for those who read the answer."""


def load_of(step: ScheduledStep) -> StepLoad:
    num_logit_rows = decode_attended = prompt_attended = prompt_context = 0
    for scheduled in step.sequences:
        num_logit_rows += scheduled.samples
        num_tokens = scheduled.num_tokens
        if num_tokens == 1:
            decode_attended += scheduled.start + 1
        else:
            prompt_attended += attended(scheduled.start, num_tokens)
            prompt_context += scheduled.start + num_tokens
    return StepLoad(
        step.num_tokens,
        len(step.sequences),
        num_logit_rows,
        decode_attended,
        prompt_attended,
        decode_attended + prompt_context,
    )


def attended(start: int, num_tokens: int) -> int:
    """Tokens that the rows [start, start + num_tokens) look at, each at itself and all before."""
    return num_tokens * start + num_tokens * (num_tokens + 1) // 2
