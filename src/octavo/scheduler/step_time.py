"""How long a step takes: a linear model of its size, fitted while the engine runs.

Owns no clock: it is told what a step contained and what it took. Must not know sequences or pages.

    seconds = fixed + a * tokens + b * sequences + c * attended tokens

Reading the weights is the fixed part, multiplying them goes with the tokens, and attention with
the tokens that each token looks back at. The coefficients are those of least squares on relative
errors (a step of 5 ms counts as much as one of 500), none below 0, with the past slowly forgotten:
exponentially weighted recursive least squares (Haykin, Adaptive Filter Theory, ch. 10), solved
from its normal equations, since four unknowns cost nothing. Steps that read prompts and steps that
do not are forgotten separately, so that an hour of decoding does not wipe out what a prompt costs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from octavo.core.step_load import num_attended_tokens
from octavo.scheduler.running_ratio import RunningRatio

MEMORY = 1 / 256
"""What one more step makes the ones before it count less, within its kind."""
RIDGE = 1e-6
"""Keeps the equations solvable while all steps look alike."""
OUTLIER = 4.0
"""A step so many times slower or faster than predicted says nothing about the model..."""
MIN_STEPS = 16
"""... unless fewer were measured so far, or that many in a row agree that the model is wrong."""
MEAN_STEPS = 32
"""Steps over which `mean_seconds` is taken, about."""
MIN_PROMPT_TOKENS = 512
"""What a prompt costs is unknown before so many tokens of prompts were computed."""
PROMPT_WINDOW_TOKENS = 65536
"""Over so many tokens of prompts, about, the cost of one is averaged."""
ATTENDED_UNIT = 1024.0
"""Scales the largest feature, so that the equations are well conditioned."""

Vector = list[float]


class StepWork(NamedTuple):
    """How big a step is. `num_attended_tokens`: over all its tokens, how many each looks back at,
    itself included."""

    num_tokens: int = 0
    num_sequences: int = 0
    num_attended_tokens: int = 0

    def plus(self, start: int, num_tokens: int) -> StepWork:
        """With a chunk of one more sequence, tokens [start, start + num_tokens)."""
        return StepWork(
            self.num_tokens + num_tokens,
            self.num_sequences + 1,
            self.num_attended_tokens + num_attended_tokens(start, num_tokens),
        )

    @property
    def features(self) -> Vector:
        attended = self.num_attended_tokens / ATTENDED_UNIT
        return [1.0, float(self.num_tokens), float(self.num_sequences), attended]


@dataclass(slots=True)
class _Equations:
    """Weighted normal equations of the steps of one kind."""

    matrix: list[Vector]
    target: Vector

    @classmethod
    def empty(cls, size: int) -> _Equations:
        return cls([[0.0] * size for _ in range(size)], [0.0] * size)

    def add(self, features: Vector) -> None:
        """A step whose features are already divided by its seconds: the target is 1."""
        for i, left in enumerate(features):
            row = self.matrix[i]
            for j, right in enumerate(features):
                row[j] += left * right - MEMORY * row[j]
            self.target[i] += left - MEMORY * self.target[i]


class StepTimeModel:
    """Predicts 0 until it has observed a step."""

    def __init__(self, coefficients: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)):
        self.num_observed = 0
        self.mean_seconds = 0.0
        """Of the latest steps, whatever was in them: what each token of an answer takes."""
        self._num_outliers = 0  # in a row
        self._prompt_token_seconds = RunningRatio(0, 0, PROMPT_WINDOW_TOKENS)
        self._coefficients: Vector = list(coefficients)
        size = len(self._coefficients)
        self._kinds = (_Equations.empty(size), _Equations.empty(size))

    @property
    def coefficients(self) -> tuple[float, float, float, float]:
        """Seconds: fixed, per token, per sequence, per 1024 attended tokens."""
        fixed, token, sequence, attended = self._coefficients
        return fixed, token, sequence, attended

    def predict(self, work: StepWork) -> float:
        """Seconds that a step takes."""
        pairs = zip(self._coefficients, work.features, strict=True)
        return sum(coefficient * feature for coefficient, feature in pairs)

    def observe(self, work: StepWork, seconds: float) -> None:
        """Learn from a step that took `seconds`."""
        if not seconds > 0.0 or work.num_tokens == 0 or self._is_outlier(work, seconds):
            return
        self.num_observed += 1
        self._num_outliers = 0
        self.mean_seconds += (seconds - self.mean_seconds) / min(self.num_observed, MEAN_STEPS)
        reads_prompt = work.num_tokens > work.num_sequences
        if reads_prompt:
            self._prompt_token_seconds.count(seconds, work.num_tokens)
        self._kinds[reads_prompt].add([feature / seconds for feature in work.features])
        self._coefficients = self._solve()

    def largest_chunk(self, work: StepWork, start: int, limit: int, max_seconds: float) -> int:
        """The most tokens, 0 to `limit`, of one more sequence that keep a step below the time."""
        low, high = 0, limit
        while low < high:
            middle = (low + high + 1) // 2
            if self.predict(work.plus(start, middle)) <= max_seconds:
                low = middle
            else:
                high = middle - 1
        return low

    def seconds_to_compute(self, num_tokens: int, step_tokens: int) -> float:
        """For a prompt alone, in steps of `step_tokens`; 0 while unknown.

        No more for each token than what steps that read prompts took for theirs: where all were
        small, the model cannot tell tokens from looks back, whose number grows with the square.
        """
        if self._prompt_token_seconds.num_counted < MIN_PROMPT_TOKENS:
            return 0.0
        fixed, token, _, attended = self._coefficients
        num_steps = math.ceil(num_tokens / step_tokens)
        looks_back = num_tokens * (num_tokens + 1) / 2 / ATTENDED_UNIT
        modelled = num_steps * fixed + num_tokens * token + looks_back * attended
        return min(modelled, num_tokens * self._prompt_token_seconds.value)

    def _is_outlier(self, work: StepWork, seconds: float) -> bool:
        predicted = self.predict(work)
        if predicted / OUTLIER <= seconds <= predicted * OUTLIER:
            return False
        self._num_outliers += 1
        return self.num_observed >= MIN_STEPS and self._num_outliers <= MIN_STEPS

    def _solve(self) -> Vector:
        """Least squares with no coefficient below 0: drop the most negative one and try again."""
        size = len(self._coefficients)
        first, second = self._kinds
        matrix = [
            [a + b for a, b in zip(*rows, strict=True)]
            for rows in zip(first.matrix, second.matrix, strict=True)
        ]
        target = [a + b for a, b in zip(first.target, second.target, strict=True)]
        kept = list(range(size))
        while kept:
            solved = _solve([[matrix[i][j] for j in kept] for i in kept], [target[i] for i in kept])
            worst = min(range(len(kept)), key=solved.__getitem__)
            if solved[worst] >= 0.0:
                break
            del kept[worst]
        coefficients = [0.0] * size
        for index, value in zip(kept, solved, strict=True):
            coefficients[index] = value
        return coefficients


def _solve(matrix: list[Vector], target: Vector) -> Vector:
    """Gaussian elimination of a symmetric, positive semi-definite system, a little regularised.

    No pivoting: with the ridge every pivot is positive."""
    size = len(target)
    rows = [[*row, value] for row, value in zip(matrix, target, strict=True)]
    for i in range(size):
        rows[i][i] += RIDGE * (rows[i][i] + 1e-12)
    for i in range(size):
        for k in range(i + 1, size):
            factor = rows[k][i] / rows[i][i]
            for j in range(i, size + 1):
                rows[k][j] -= factor * rows[i][j]
    solution = [0.0] * size
    for i in reversed(range(size)):
        known = sum(rows[i][j] * solution[j] for j in range(i + 1, size))
        solution[i] = (rows[i][size] - known) / rows[i][i]
    return solution
