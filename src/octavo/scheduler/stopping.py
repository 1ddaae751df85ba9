"""When token ids end a sequence. Stop strings, which need text, are the output processor's."""

from __future__ import annotations

from collections.abc import Set
from typing import NamedTuple

from octavo.core.outputs import FinishReason
from octavo.core.sequence import Sequence


class Finish(NamedTuple):
    """Why a sequence ended. `stop_reason` is the stop string or the id out of `stop_token_ids`;
    None for the model's own end-of-text ids, as in vLLM."""

    reason: FinishReason
    stop_reason: int | str | None = None


def finish_of(
    sequence: Sequence, eos_token_ids: Set[int], max_sequence_tokens: int
) -> Finish | None:
    """Whether `sequence`, whose last token has just been computed or drawn, is complete.

    A stop token wins over the length limits, and does not count before `min_tokens` are there.
    """
    params = sequence.params
    num_tokens = len(sequence.token_ids)
    num_output = num_tokens - sequence.num_prompt_tokens
    if num_output > 0 and num_output >= params.min_tokens:
        token_id = sequence.token_ids[-1]
        if not params.ignore_eos and token_id in eos_token_ids:
            return Finish("stop")
        if params.stop_token_ids is not None and token_id in params.stop_token_ids:
            return Finish("stop", token_id)
    if params.max_tokens is not None and num_output >= params.max_tokens:
        return Finish("length")
    if num_tokens >= max_sequence_tokens:
        return Finish("length")
    return None
