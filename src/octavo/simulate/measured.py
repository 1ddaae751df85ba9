"""Step times of a real machine: a curve over the tokens of a step, and what is not in it.

Owns the profile's JSON form and how it is fitted to measured times. Knows neither who measured nor
what was measured, only its `StepLoad`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from octavo.core.step_load import StepLoad
from octavo.errors import ConfigError

SCHEMA = "octavo-step-profile/1"
NUM_FITS = 3
NUM_PASSES = 20_000
MAX_KNOTS = 16
LEAST_STEP_SECONDS = 1e-6
"""Of a curve whose beginning the other costs explain as well: no engine steps in less."""
RIDGE = 1e-9


class Profile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`knots` are (tokens in a step, seconds), ascending: the time without attention, linear
    between them and beyond the last. The two costs of attention are seconds per token looked at.
    `drawn_seconds` is per token drawn: its logits, the choice, and sending it. `arrival_seconds`:
    what a request that arrives takes from the step under way.

    The bounds are those of the engine that was measured, where it told them.
    """

    model: str
    machine: str
    knots: list[tuple[int, float]]
    decode_attended_seconds: float
    prompt_attended_seconds: float
    drawn_seconds: float = 0.0
    arrival_seconds: float = 0.0
    request_seconds: float = 0.0
    num_pages: int | None = None
    page_windows: tuple[int, ...] = (0,)
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    typical_error: float = 0.0
    schema: str = SCHEMA


@dataclass(frozen=True, slots=True)
class Sample:
    """`seconds` were measured for these steps one after the other, during which `num_arrived` other
    requests came, and a request's cost if `with_request`. `weight` is that of its relative error.
    """

    loads: Sequence[StepLoad]
    seconds: float
    with_request: bool = False
    num_arrived: int = 0
    weight: float = 1.0


class MeasuredTimes:
    """Implements `StepTimes`."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self._counts = [count for count, _ in profile.knots]
        self._seconds = [seconds for _, seconds in profile.knots]

    @property
    def request_seconds(self) -> float:
        return self.profile.request_seconds

    @property
    def arrival_seconds(self) -> float:
        return self.profile.arrival_seconds

    def seconds(self, load: StepLoad) -> float:
        return (
            self._curve(load.num_tokens)
            + load.num_decode_attended * self.profile.decode_attended_seconds
            + load.num_prompt_attended * self.profile.prompt_attended_seconds
            + load.num_logit_rows * self.profile.drawn_seconds
        )

    @property
    def assumptions(self) -> list[str]:
        one = self.profile
        return [
            f"measured: {one.model} on {one.machine}",
            "steps (tokens: ms): " + ", ".join(f"{n}: {1e3 * s:.2f}" for n, s in one.knots),
            f"attention: {1e9 * one.decode_attended_seconds:.1f} ns per token looked at in a"
            f" decode, {1e9 * one.prompt_attended_seconds:.1f} in a prompt",
            f"a token drawn: {1e6 * one.drawn_seconds:.0f} us;"
            f" a request: {1e3 * one.request_seconds:.1f} ms outside of steps,"
            f" {1e3 * one.arrival_seconds:.1f} ms of others' steps",
            f"the profile meets its own measurements within {one.typical_error:.1%} (root mean"
            " square)",
        ]

    def _curve(self, num_tokens: int) -> float:
        counts, seconds = self._counts, self._seconds
        if num_tokens <= counts[0] or len(counts) == 1:
            return seconds[0]
        right = min(bisect_right(counts, num_tokens), len(counts) - 1)
        left = right - 1
        slope = (seconds[right] - seconds[left]) / (counts[right] - counts[left])
        return seconds[left] + slope * (num_tokens - counts[left])


def profile_to_json(profile: Profile) -> bytes:
    fields = {**msgspec.to_builtins(profile), "schema": profile.schema}
    return msgspec.json.format(msgspec.json.encode(fields), indent=2) + b"\n"


def profile_from_json(data: bytes, origin: str) -> Profile:
    """Raises ConfigError, naming `origin`, for what is no profile that could be computed with."""
    try:
        profile = msgspec.json.decode(data, type=Profile)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{origin} is no profile of octavo simulate: {error}") from None
    if profile.schema != SCHEMA:
        raise ConfigError(f"{origin} has schema {profile.schema!r}; {SCHEMA!r} is read")
    counts = [count for count, _ in profile.knots]
    if not counts or counts[0] < 1 or counts != sorted(set(counts)):
        raise ConfigError(f"{origin}: knots must ascend from 1 token or more")
    if any(not 0 < seconds < 1e6 for _, seconds in profile.knots):
        raise ConfigError(f"{origin}: a knot's seconds must be above 0")
    costs = (
        profile.decode_attended_seconds,
        profile.prompt_attended_seconds,
        profile.drawn_seconds,
        profile.arrival_seconds,
        profile.request_seconds,
    )
    if any(not 0 <= cost < 1e6 for cost in costs):
        raise ConfigError(f"{origin}: a cost is negative")
    return profile


def fit(samples: Sequence[Sample], model: str, machine: str) -> Profile:
    """The profile that comes nearest to the samples, by relative error, with no cost below zero and
    a curve that never falls. Raises ConfigError without samples.

    Errors are relative to what is expected: to what was measured, slow samples would count for
    less than fast ones, and the profile would be faster than the machine. What is expected is the
    fit before.

    The curve is a sum of ramps between the knots, so that "never falls" is "no ramp below zero",
    and all of it is one non-negative least squares.
    """
    if not samples:
        raise ConfigError("no measured step to fit a profile to")
    counts = choose_knots({load.num_tokens for sample in samples for load in sample.loads})
    has_request = any(sample.with_request for sample in samples)
    rows = np.array([_row(sample, counts, has_request) for sample in samples])
    seconds = np.array([sample.seconds for sample in samples])
    weights = np.array([sample.weight for sample in samples])
    expected = seconds
    for _ in range(NUM_FITS):
        scale = weights / expected
        found = _non_negative(rows * scale[:, None], seconds * scale)
        expected = rows @ found
    ramps, (decode, prompt, drawn, arrival) = found[: len(counts)], found[len(counts) :][:4]
    curve = np.maximum(np.cumsum(ramps), LEAST_STEP_SECONDS)
    errors = rows @ found / seconds - 1
    return Profile(
        model=model,
        machine=machine,
        knots=list(zip(counts, curve.tolist(), strict=True)),
        decode_attended_seconds=float(decode),
        prompt_attended_seconds=float(prompt),
        drawn_seconds=float(drawn),
        arrival_seconds=float(arrival),
        request_seconds=float(found[-1]) if has_request else 0.0,
        typical_error=float(np.sqrt(np.average(errors**2, weights=weights**2))),
    )


def choose_knots(counts: AbstractSet[int]) -> list[int]:
    """All that were measured if they are few, else the least, the most, and between them powers of
    two and what is halfway to the next, as far as one of each was measured."""
    if len(counts) <= MAX_KNOTS:
        return sorted(counts)
    ladder = {2**exponent * step // 2 for exponent in range(1, 20) for step in (2, 3)}
    nearest = {min(counts, key=lambda count: abs(count - rung)) for rung in ladder}
    return sorted(nearest | {min(counts), max(counts)})


def _row(sample: Sample, counts: Sequence[int], has_request: bool) -> list[float]:
    ramps = [0.0] * len(counts)
    for load in sample.loads:
        for index, count in enumerate(counts):
            ramps[index] += _ramp(load.num_tokens, counts[index - 1] if index else 0, count)
    decode = sum(load.num_decode_attended for load in sample.loads)
    prompt = sum(load.num_prompt_attended for load in sample.loads)
    drawn = sum(load.num_logit_rows for load in sample.loads)
    request = [float(sample.with_request)] if has_request else []
    return [*ramps, decode, prompt, drawn, sample.num_arrived, *request]


def _ramp(num_tokens: int, low: int, high: int) -> float:
    """0 up to `low`, 1 from `high` on. The first begins at nothing: a step is never free."""
    return 1.0 if low == 0 else min(1.0, max(0.0, (num_tokens - low) / (high - low)))


def _non_negative(rows: NDArray[np.float64], wanted: NDArray[np.float64]) -> NDArray[np.float64]:
    """Least squares of rows @ x = wanted with x >= 0, by coordinate descent (Franc, Hlavac, Navara
    2005), on columns of equal length, with a trace of a ridge for columns that look alike."""
    lengths = np.linalg.norm(rows, axis=0)
    lengths[lengths == 0] = 1.0
    columns = rows / lengths
    gram = columns.T @ columns + RIDGE * np.eye(columns.shape[1])
    found = np.zeros(columns.shape[1])
    gradient = -(columns.T @ wanted)
    for _ in range(NUM_PASSES):
        moved = 0.0
        for index in range(len(found)):
            value = max(0.0, found[index] - gradient[index] / gram[index, index])
            change = value - found[index]
            if change:
                found[index] = value
                gradient += change * gram[:, index]
                moved = max(moved, abs(change))
        if moved < 1e-10:
            break
    scaled: NDArray[np.float64] = found / lengths
    return scaled
