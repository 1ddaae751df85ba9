"""A mean that forgets: what was counted long ago matters less. Knows no unit."""

from __future__ import annotations


class RunningRatio:
    """Sum over sum of what was last counted: both halve whenever the second reaches `window`."""

    def __init__(self, first: float, weight: float, window: float) -> None:
        self._above, self._below, self._window = first * weight, weight, window

    def count(self, above: float, below: float) -> None:
        self._above += above
        self._below += below
        if self._below >= self._window:
            self._above, self._below = self._above / 2, self._below / 2

    @property
    def num_counted(self) -> float:
        """Of the second, what still counts."""
        return self._below

    @property
    def value(self) -> float:
        """0 if nothing was counted and nothing supposed at first."""
        return self._above / self._below if self._below else 0.0
