"""How long steps take, from the beginning of one to the beginning of the next. Owns no clock.

A step that moved pages, or that failed, is not told of: its time says nothing of its size.
"""

from __future__ import annotations

from octavo.core.schedule import ScheduledStep, load_of
from octavo.core.step_load import MeasuredStep, StepLoad


class StepMeter:
    """`begins` and `ends` in turns, `arrived` with each request; `take` what has been measured
    since the last time."""

    def __init__(self) -> None:
        self._open: tuple[StepLoad, float] | None = None  # ended; when it began
        self._num_arrived = 0
        self._measured: list[MeasuredStep] = []

    def begins(self, now: float) -> None:
        """The next step; the last one left more to do, or nothing."""
        self._close(now)
        self._num_arrived = 0

    def arrived(self) -> None:
        self._num_arrived += 1

    def ends(self, step: ScheduledStep, began: float, now: float, *, has_more: bool) -> None:
        """A step was computed. Without more to do its time is over."""
        if step.sequences and not step.moves:
            self._open = (load_of(step), began)
        if not has_more:
            self._close(now)

    def take(self) -> list[MeasuredStep]:
        measured, self._measured = self._measured, []
        return measured

    def _close(self, now: float) -> None:
        if self._open is not None:
            load, began = self._open
            seconds = max(0.0, now - began)
            self._measured.append(MeasuredStep(load, seconds, self._num_arrived))
            self._open = None
