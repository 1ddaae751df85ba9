"""Arrivals keep their rate, and come as bursty as asked for."""

from __future__ import annotations

import itertools
import random
from statistics import mean, pstdev

import pytest

from octavo.errors import ConfigError
from octavo.simulate.arrivals import parse_arrivals

NUM = 20_000


def gaps(text: str, rate: float) -> list[float]:
    times = parse_arrivals(text, "--arrivals").times(rate, random.Random(1))
    return [b - a for a, b in itertools.pairwise(itertools.islice(times, NUM))]


@pytest.mark.parametrize("text", ["poisson", "fixed", "gamma:3", "on_off:2:8"])
def test_the_mean_rate_is_kept(text: str) -> None:
    assert mean(gaps(text, 5.0)) == pytest.approx(0.2, rel=0.1)


@pytest.mark.parametrize(
    ("text", "variation"), [("poisson", 1.0), ("fixed", 0.0), ("gamma:3", 3.0), ("gamma:0.5", 0.5)]
)
def test_the_coefficient_of_variation_is_kept(text: str, variation: float) -> None:
    found = gaps(text, 5.0)
    assert pstdev(found) / mean(found) == pytest.approx(variation, abs=0.1 * (1 + variation))


def test_on_and_off_times_alternate() -> None:
    found = gaps("on_off:2:8", 5.0)
    pauses = [gap for gap in found if gap > 2.0]
    assert mean(gap for gap in found if gap <= 2.0) < 0.06
    assert mean(pauses) > 6


@pytest.mark.parametrize("text", ["", "gamma", "gamma:0", "gamma:x", "on_off:1", "on_off:0:1", "x"])
def test_other_words_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--arrivals is"):
        parse_arrivals(text, "--arrivals")
