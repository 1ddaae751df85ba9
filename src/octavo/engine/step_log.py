"""The latest steps of an engine as whoever serves it keeps them, and how they are handed out."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import msgspec

from octavo.core.step_load import MeasuredStep

MAX_STEPS = 8192
"""A minute of short steps: 400 kB when they are asked for."""


class StepReport(msgspec.Struct, frozen=True):
    """`num_steps` were measured in all; `steps` are the latest of them, the oldest first."""

    num_steps: int
    steps: list[MeasuredStep]

    def since(self, earlier: StepReport) -> list[MeasuredStep]:
        """Those that have come since then and are still known."""
        num_new = self.num_steps - earlier.num_steps
        return self.steps[-num_new:] if num_new > 0 else []


class StepLog:
    def __init__(self) -> None:
        self._num_steps = 0
        self._steps: deque[MeasuredStep] = deque(maxlen=MAX_STEPS)

    def add(self, steps: Iterable[MeasuredStep]) -> None:
        for step in steps:
            self._num_steps += 1
            self._steps.append(step)

    def report(self) -> StepReport:
        return StepReport(self._num_steps, list(self._steps))
