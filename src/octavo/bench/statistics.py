"""Order statistics of measured samples, and how far a median may be trusted. Knows no units."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

NOTCH = 1.57
"""McGill, Tukey and Larsen 1978: medians of equal populations differ by less than this many
interquartile ranges over sqrt(n), each, about 19 times in 20."""

MIN_FOR_QUARTILES = 5
"""With fewer samples the whole range stands in for the interquartile range."""


@dataclass(frozen=True, slots=True)
class Summary:
    """In the unit of the samples. `deviation` is the standard deviation of the population."""

    mean: float
    median: float
    deviation: float
    least: float
    most: float
    p90: float
    p99: float


def summarise(samples: Sequence[float]) -> Summary:
    """Raises ValueError without samples."""
    if not samples:
        raise ValueError("no samples")
    ordered = sorted(samples)
    mean = math.fsum(ordered) / len(ordered)
    variance = math.fsum((value - mean) ** 2 for value in ordered) / len(ordered)
    return Summary(
        mean=mean,
        median=percentile(ordered, 50),
        deviation=math.sqrt(variance),
        least=ordered[0],
        most=ordered[-1],
        p90=percentile(ordered, 90),
        p99=percentile(ordered, 99),
    )


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Of ascending samples, with linear interpolation between neighbours (numpy's default)."""
    place = (len(ordered) - 1) * percent / 100
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def median_noise(samples: Sequence[float]) -> float:
    """Half the width of the interval in which the median lies by chance; infinite for one sample.

    A single run says nothing about how much the next one will differ.
    """
    if len(samples) < 2:
        return math.inf
    ordered = sorted(samples)
    if len(ordered) < MIN_FOR_QUARTILES:
        return ordered[-1] - ordered[0]
    spread = percentile(ordered, 75) - percentile(ordered, 25)
    return NOTCH * spread / math.sqrt(len(ordered))
