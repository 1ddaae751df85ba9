"""Distributions of prompt and answer lengths, written as short texts and drawn with a seed."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from octavo.errors import ConfigError

FORMS = "N, uniform:LOW:HIGH, or lognormal:MEDIAN:SIGMA[:MOST]"
DEFAULT_MOST_PER_MEDIAN = 8


@dataclass(frozen=True, slots=True)
class Fixed:
    tokens: int

    def draw(self, source: random.Random) -> int:  # noqa: ARG002
        return self.tokens


@dataclass(frozen=True, slots=True)
class Uniform:
    """Both ends included."""

    low: int
    high: int

    def draw(self, source: random.Random) -> int:
        return source.randint(self.low, self.high)


@dataclass(frozen=True, slots=True)
class LogNormal:
    """Many short and a few long ones, as people write; cut at 1 and at `most`."""

    median: int
    sigma: float
    most: int

    def draw(self, source: random.Random) -> int:
        length = round(source.lognormvariate(math.log(self.median), self.sigma))
        return min(self.most, max(1, length))


Lengths = Fixed | Uniform | LogNormal


def parse_lengths(text: str, origin: str) -> Lengths:
    """Raises ConfigError naming `origin`."""
    kind, *fields = text.split(":")
    try:
        lengths = _lengths(kind, fields)
    except ValueError:
        lengths = None
    if lengths is None:
        raise ConfigError(f"{origin} is {text!r}; {FORMS} is allowed, with lengths from 1")
    return lengths


def _lengths(kind: str, fields: list[str]) -> Lengths | None:
    match kind, fields:
        case "uniform", [low, high]:
            made = Uniform(int(low), int(high))
            return made if 1 <= made.low <= made.high else None
        case "lognormal", [median, sigma, *rest] if len(rest) <= 1:
            most = int(rest[0]) if rest else DEFAULT_MOST_PER_MEDIAN * int(median)
            curve = LogNormal(int(median), float(sigma), most)
            return curve if 1 <= curve.median <= most and 0 <= curve.sigma <= 10 else None
        case _, []:
            return Fixed(int(kind)) if int(kind) >= 1 else None
    return None
