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

    def drain(self) -> list[Event]:
        events, self._events = self._events, []
        return events

    def content(self, text: str) -> None:
        if not text:
            return
        if self._events and isinstance(last := self._events[-1], ContentDelta):
            self._events[-1] = ContentDelta(last.text + text)
        else:
            self._events.append(ContentDelta(text))

    def reasoning(self, text: str) -> None:
        if not text:
            return
        if self._events and isinstance(last := self._events[-1], ReasoningDelta):
            self._events[-1] = ReasoningDelta(last.text + text)
        else:
            self._events.append(ReasoningDelta(text))

    def start(self, name: str, call_id: str | None) -> None:
        self._events.append(ToolCallStart(self._num_calls, call_id or self._new_id(), name))
        self._num_calls += 1

    def arguments(self, text: str) -> None:
        if not text:
            return
        index = self._num_calls - 1
        if self._events and isinstance(last := self._events[-1], ArgumentsDelta):
            self._events[-1] = ArgumentsDelta(index, last.text + text)
        else:
            self._events.append(ArgumentsDelta(index, text))

    def end(self, complete: bool) -> None:
        self._events.append(ToolCallEnd(self._num_calls - 1, complete))
