"""When token ids end a sequence. Stop strings, which need text, are the output processor's."""

from __future__ import annotations

from collections.abc import Set
from typing import NamedTuple

from octavo.core.outputs import FinishReason
from octavo.core.repetition_detection import RepetitionDetection
from octavo.core.sequence import Sequence

REPETITION_DETECTED = "repetition_detected"
"""The stop reason of an answer that repeats itself, as in vLLM."""


class Finish(NamedTuple):
    """Why a sequence ended. `stop_reason` is the stop string or the id out of `stop_token_ids`;
    None for the model's own end-of-text ids, as in vLLM."""

    reason: FinishReason
    stop_reason: int | str | None = None


def finish_of(
    sequence: Sequence, eos_token_ids: Set[int], max_sequence_tokens: int
) -> Finish | None:
    """Whether `sequence`, whose last token has just been computed or drawn, is complete.

    One that becomes a vector is. A stop token wins over the length limits, and these over a
    repetition. Neither stop tokens nor repetitions count before `min_tokens` are there.
    """
    if sequence.request.pooling is not None:
        return Finish("stop")
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
    detection = params.repetition_detection
    if (
        detection is not None
        and num_output >= params.min_tokens
        and repeats(sequence.token_ids, num_output, detection)
    ):
        return Finish("repetition", REPETITION_DETECTED)
    return None


def repeats(token_ids: list[int], num_output: int, detection: RepetitionDetection) -> bool:
    """Whether the last of the `num_output` answer tokens are one pattern, `min_count` times."""
    last = token_ids[-1]
    for size in range(max(detection.min_pattern_size, 1), detection.max_pattern_size + 1):
        num_tokens = size * detection.min_count
        if num_tokens > num_output:
            return False
        if token_ids[-1 - size] != last:
            continue
        if token_ids[-num_tokens:-size] == token_ids[size - num_tokens :]:
            return True
    return False
