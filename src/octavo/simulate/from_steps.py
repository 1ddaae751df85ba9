"""Samples for a profile out of the steps that a server has measured of itself. Knows no server."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator

from octavo.core.step_load import MeasuredStep
from octavo.simulate.measured import Sample

Kind = tuple[int, int, bool, bool]

STEPS_PER_SAMPLE = 16
"""What single steps take varies with what else the machine does; queues feel the mean."""


def step_samples(steps: Iterable[MeasuredStep]) -> Iterator[Sample]:
    """Steps of about the same size and kind are one sample, up to so many of them. It weighs as
    much as its mean is certain."""
    alike: defaultdict[Kind, list[MeasuredStep]] = defaultdict(list)
    for step in steps:
        group = alike[_kind(step)]
        group.append(step)
        if len(group) == STEPS_PER_SAMPLE:
            yield _sample(group)
            group.clear()
    yield from (_sample(group) for group in alike.values() if group)


def _kind(step: MeasuredStep) -> Kind:
    """Sizes to a power of two, whether a prompt is read, and whether somebody arrived."""
    tokens, rows = step.load.num_tokens, step.load.num_logit_rows
    reads_prompt = tokens > step.load.num_sequences
    return tokens.bit_length(), rows.bit_length(), reads_prompt, step.num_arrived > 0


def _sample(steps: list[MeasuredStep]) -> Sample:
    return Sample(
        [step.load for step in steps],
        sum(step.seconds for step in steps),
        num_arrived=sum(step.num_arrived for step in steps),
        weight=math.sqrt(len(steps)),
    )
