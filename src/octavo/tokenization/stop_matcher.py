"""Looks for stop strings in streamed text and holds back whatever may become one. Text only.

The stop string that is complete first matches; of several complete at the same character, the
longest. So the outcome depends on the text alone, never on how the stream was cut, and generation
can end at the first possible token. No part of the stop string that matches is emitted before it.

One Knuth-Morris-Pratt automaton per stop string: constant work per character and stop string.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StopResult:
    """`text` may be shown. `matched` is the stop string that ended the text, if one did."""

    text: str
    matched: str | None


class StopMatcher:
    """With `include_stop` the text that is shown ends with the stop string itself."""

    def __init__(self, stops: Sequence[str], include_stop: bool) -> None:
        # Longest first: the first one found complete at a character is the one that matches.
        self._stops = sorted(filter(None, stops), key=len, reverse=True)
        self._borders = [_borders(stop) for stop in self._stops]
        self._matched_chars = [0] * len(self._stops)
        self._include_stop = include_stop
        self._held = ""

    def push(self, text: str) -> StopResult:
        """Take more text. After a match nothing may be pushed."""
        seen = self._held + text
        for position, character in enumerate(text, start=len(self._held)):
            stop = self._advance(character)
            if stop is not None:
                end = position + 1
                self._held = ""
                return StopResult(seen[: end if self._include_stop else end - len(stop)], stop)
        shown = len(seen) - max(self._matched_chars, default=0)
        self._held = seen[shown:]
        return StopResult(seen[:shown], None)

    def flush(self) -> str:
        """The text that was held back: at the end no stop string can follow."""
        held, self._held = self._held, ""
        return held

    def _advance(self, character: str) -> str | None:
        """One character further in every automaton; the longest stop string that is complete."""
        for index, stop in enumerate(self._stops):
            matched = self._matched_chars[index]
            while matched and stop[matched] != character:
                matched = self._borders[index][matched - 1]
            matched += stop[matched] == character
            self._matched_chars[index] = matched
            if matched == len(stop):
                return stop
        return None


def _borders(stop: str) -> list[int]:
    """For each prefix the length of its longest proper prefix that is also its suffix."""
    borders = [0] * len(stop)
    length = 0
    for index in range(1, len(stop)):
        while length and stop[length] != stop[index]:
            length = borders[length - 1]
        length += stop[length] == stop[index]
        borders[index] = length
    return borders
