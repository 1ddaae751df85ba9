"""Samples for a profile out of the steps that a server has measured of itself. Knows no server."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator

from octavo.core.step_load import MeasuredStep, StepLoad
from octavo.simulate.measured import Sample

STEPS_PER_SAMPLE = 16
"""What single steps take varies with what else the machine does; queues feel the mean."""


def step_samples(steps: Iterable[MeasuredStep]) -> Iterator[Sample]:
    """Steps of about the same size and kind are one sample, up to so many of them. It weighs as
    much as its mean is certain."""
    alike: defaultdict[tuple[int, int, bool], list[MeasuredStep]] = defaultdict(list)
    for step in steps:
        group = alike[_kind(step.load)]
        group.append(step)
        if len(group) == STEPS_PER_SAMPLE:
            yield _sample(group)
            group.clear()
    yield from (_sample(group) for group in alike.values() if group)


def _kind(load: StepLoad) -> tuple[int, int, bool]:
    """Sizes to a power of two, and whether a prompt is read."""
    reads_prompt = load.num_tokens > load.num_sequences
    return load.num_tokens.bit_length(), load.num_logit_rows.bit_length(), reads_prompt


def _sample(steps: list[MeasuredStep]) -> Sample:
    return Sample(
        [step.load for step in steps],
        sum(step.seconds for step in steps),
        num_arrived=sum(step.num_arrived for step in steps),
        weight=math.sqrt(len(steps)),
    )
