"""What a step asks of a machine, as a few sums over its rows. Knows no machine and no sequence."""

from __future__ import annotations

from typing import NamedTuple

import msgspec


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


class MeasuredStep(msgspec.Struct, frozen=True, array_like=True):
    """`seconds`: from its beginning to that of the next step, or to its end if there was nothing
    more to do. So what the engine does between steps is in it, and what else uses its processors.
    `num_arrived`: requests that came meanwhile, whose arrival is work for those processors, too.
    """

    load: StepLoad
    seconds: float
    num_arrived: int = 0


def num_attended_tokens(start: int, num_tokens: int) -> int:
    """How many tokens a sequence's tokens [start, start + num_tokens) look back at, themselves
    included."""
    return num_tokens * start + num_tokens * (num_tokens + 1) // 2
