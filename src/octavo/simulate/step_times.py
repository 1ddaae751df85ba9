"""How long steps take, as a simulation asks for it. Knows no machine."""

from __future__ import annotations

from typing import Protocol

from octavo.core.step_load import StepLoad


class StepTimes(Protocol):
    """A machine with a model on it, as a simulation sees it."""

    def seconds(self, load: StepLoad) -> float:
        """Time of one step. Above 0, and not less for a larger load."""

    @property
    def request_seconds(self) -> float:
        """What each request spends outside steps: HTTP, tokenising, messages. Delays it, once."""

    @property
    def arrival_seconds(self) -> float:
        """What a request that arrives takes from the steps under way, on the same processors."""

    @property
    def assumptions(self) -> list[str]:
        """What is taken for granted, for those who read the answer."""
