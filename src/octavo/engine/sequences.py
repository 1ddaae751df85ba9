"""From a request to its sequences, and from an ended sequence to the times that metrics want."""

from __future__ import annotations

from octavo.core.outputs import RequestTimes
from octavo.core.request import EngineRequest
from octavo.core.sequence import Sequence

NUM_SEEDS = 2**64


def make_sequences(request: EngineRequest, unseeded: int) -> list[Sequence]:
    """The sequences that run for `request`; number i draws with seed + i.

    `unseeded` is the seed of a request that gives none.
    """
    params = request.sampling_params
    seed = unseeded if params.seed is None else params.seed
    return [
        Sequence(
            request=request,
            index=index,
            token_ids=list(request.prompt_token_ids),
            num_prompt_tokens=len(request.prompt_token_ids),
            seed=(seed + index) % NUM_SEEDS,
        )
        for index in range(params.num_sequences)
    ]


def times_of(sequence: Sequence, now: float) -> RequestTimes:
    """Seconds that `sequence`, which ends now, spent in the queue, on its prompt and on answering.

    A stage that it did not reach took no time, and the stage that it ended in lasts until now.
    """
    scheduled = sequence.first_scheduled_time or now
    first_token = sequence.first_token_time or now
    return RequestTimes(
        queue_seconds=max(0.0, scheduled - sequence.request.arrival_time),
        prefill_seconds=max(0.0, first_token - scheduled),
        decode_seconds=max(0.0, now - first_token),
        num_prompt_tokens=sequence.num_prompt_tokens,
        num_generation_tokens=sequence.num_output_tokens,
        num_preemptions=sequence.num_preemptions,
    )
