"""What a simulation notes while it runs: ended requests, times between tokens, state over time.

Plain numbers in arrays, because there may be millions. Knows no scheduler.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

GAP_UNIT_SECONDS = 1e-5
"""Times between tokens are counted in such steps: what a millisecond is, to one per cent."""

MAX_POINTS = 400
"""Of a timeline: when it has more, every other one goes, and the interval doubles."""


class Gaps:
    """A histogram of seconds between tokens."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()

    def add(self, seconds: float, count: int) -> None:
        self._counts[round(seconds / GAP_UNIT_SECONDS)] += count

    def percentiles(self, percents: Sequence[float]) -> list[float]:
        """In seconds, each the least that so many per cent do not exceed; zeros without any."""
        if not self._counts:
            return [0.0] * len(percents)
        keys = sorted(self._counts)
        below = list(accumulate(self._counts[key] for key in keys))
        return [
            GAP_UNIT_SECONDS * keys[_first_at_least(below, below[-1] * percent / 100)]
            for percent in percents
        ]

    @property
    def mean(self) -> float:
        total = sum(self._counts.values())
        seconds = sum(key * count for key, count in self._counts.items()) * GAP_UNIT_SECONDS
        return seconds / total if total else 0.0


def _first_at_least(ascending: list[int], value: float) -> int:
    low, high = 0, len(ascending) - 1
    while low < high:
        middle = (low + high) // 2
        if ascending[middle] >= value:
            high = middle
        else:
            low = middle + 1
    return low


@dataclass(slots=True)
class Finished:
    """Requests that were answered, one entry each, by tenant. Seconds from the client's sending."""

    ttft: array[float] = field(default_factory=lambda: array("d"))
    latency: array[float] = field(default_factory=lambda: array("d"))
    num_prompt_tokens: array[int] = field(default_factory=lambda: array("q"))
    num_output_tokens: array[int] = field(default_factory=lambda: array("q"))

    def add(self, ttft: float, latency: float, num_prompt: int, num_output: int) -> None:
        self.ttft.append(ttft)
        self.latency.append(latency)
        self.num_prompt_tokens.append(num_prompt)
        self.num_output_tokens.append(num_output)

    def extend(self, other: Finished) -> None:
        for name in self.__dataclass_fields__:
            getattr(self, name).extend(getattr(other, name))

    def __len__(self) -> int:
        return len(self.ttft)

    def tpot(self) -> list[float]:
        """Seconds per token after the first, of answers with more than one."""
        return [
            (latency - ttft) / (count - 1)
            for ttft, latency, count in zip(
                self.ttft, self.latency, self.num_output_tokens, strict=True
            )
            if count > 1
        ]

    def per_token(self) -> list[float]:
        """Latency over the tokens of the answer: what Yu et al. 2022 (Orca) and Kwon et al. 2023
        (vLLM) call normalized latency."""
        return [
            latency / count
            for latency, count in zip(self.latency, self.num_output_tokens, strict=True)
        ]


@dataclass(slots=True)
class Point:
    """The cluster at one time. Pages are a share of all."""

    seconds: float
    num_running: int
    num_waiting: int
    page_share: float


@dataclass(slots=True)
class Timeline:
    """Points about evenly spread over a run whose length nobody knows beforehand."""

    points: list[Point] = field(default_factory=list)
    interval_seconds: float = 1e-3
    next_seconds: float = 0.0

    def add(self, point: Point) -> None:
        self.points.append(point)
        if len(self.points) > MAX_POINTS:
            del self.points[1::2]
            self.interval_seconds *= 2
        self.next_seconds = point.seconds + self.interval_seconds

    def at(self, seconds: float) -> Point:
        """The last point up to then, or the first of all. There must be one."""
        place = bisect_right(self.points, seconds, key=lambda point: point.seconds)
        return self.points[max(0, place - 1)]


@dataclass(slots=True)
class Records:
    """All of one run. Requests ended in one of four ways."""

    finished: dict[str, Finished] = field(default_factory=dict)
    num_expired: Counter[str] = field(default_factory=Counter)
    num_refused: Counter[str] = field(default_factory=Counter)
    num_too_long: Counter[str] = field(default_factory=Counter)
    gaps: Gaps = field(default_factory=Gaps)
    timeline: Timeline = field(default_factory=Timeline)
    first_seconds: float = 0.0
    last_seconds: float = 0.0
    last_arrival_seconds: float = 0.0
    most_open: int = 0

    def count_refused(self, tenant: str, answer: str) -> None:
        counts = self.num_too_long if answer == "too_long" else self.num_refused
        counts[tenant] += 1

    def all_finished(self) -> Finished:
        everyone = Finished()
        for one in self.finished.values():
            everyone.extend(one)
        return everyone
