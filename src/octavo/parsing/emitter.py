"""Collects the events of one answer, numbers its calls, and joins deltas that follow each other.

Knows which tools exist and nothing of the text they come from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from octavo.parsing.events import (
    ArgumentsDelta,
    ContentDelta,
    Event,
    ReasoningDelta,
    ToolCallEnd,
    ToolCallStart,
)

Schema = Mapping[str, object]
"""The JSON schema of a tool's parameters, as the client gave it: not checked."""


class Emitter:
    """`tools` maps each tool that the client offered to the schema of its parameters."""

    def __init__(self, tools: Mapping[str, Schema], new_id: Callable[[], str]) -> None:
        self.tools = tools
        self._new_id = new_id
        self._num_calls = 0
        self._events: list[Event] = []
        self._delta: type[ContentDelta | ReasoningDelta | ArgumentsDelta] = ContentDelta
        self._pieces: list[str] = []

    def drain(self) -> list[Event]:
        self._join()
        events, self._events = self._events, []
        return events

    def content(self, text: str) -> None:
        self._add(ContentDelta, text)

    def reasoning(self, text: str) -> None:
        self._add(ReasoningDelta, text)

    def start(self, name: str, call_id: str | None) -> None:
        self._join()
        self._events.append(ToolCallStart(self._num_calls, call_id or self._new_id(), name))
        self._num_calls += 1

    def arguments(self, text: str) -> None:
        self._add(ArgumentsDelta, text)

    def end(self, complete: bool) -> None:
        self._join()
        self._events.append(ToolCallEnd(self._num_calls - 1, complete))

    def _add(self, delta: type[ContentDelta | ReasoningDelta | ArgumentsDelta], text: str) -> None:
        if not text:
            return
        if delta is not self._delta:
            self._join()
        self._delta = delta
        self._pieces.append(text)

    def _join(self) -> None:
        """The pieces so far are one event: joined once, or many pieces would cost their square."""
        if not self._pieces:
            return
        text = "".join(self._pieces)
        self._pieces = []
        if self._delta is ArgumentsDelta:
            self._events.append(ArgumentsDelta(self._num_calls - 1, text))
        elif self._delta is ReasoningDelta:
            self._events.append(ReasoningDelta(text))
        else:
            self._events.append(ContentDelta(text))
