"""What a parser says about a model's text, and the whole answer put together from it.

Plain data. Knows no dialect and no wire format.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ContentDelta:
    """More text for the reader of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """More text of the model's reasoning."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCallStart:
    """A call of a known tool begins. `index` counts the calls of one answer from 0."""

    index: int
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class ArgumentsDelta:
    """The next piece of the JSON text of a call's arguments."""

    index: int
    text: str


@dataclass(frozen=True, slots=True)
class ToolCallEnd:
    """Nothing more comes for this call. A `complete` one was written to its end without a break:
    its arguments are JSON (or what the model wrote into a string that should have held JSON)."""

    index: int
    complete: bool


Event = ContentDelta | ReasoningDelta | ToolCallStart | ArgumentsDelta | ToolCallEnd


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One whole call; `arguments` is what a break left if the call is not `complete`."""

    id: str
    name: str
    arguments: str
    complete: bool


@dataclass(frozen=True, slots=True)
class ParsedOutput:
    """A whole answer: what a client sees that does not stream."""

    content: str
    reasoning: str
    tool_calls: tuple[ToolCall, ...]


def gather(events: Iterable[Event]) -> ParsedOutput:
    """The sum of all events of one answer."""
    content: list[str] = []
    reasoning: list[str] = []
    starts: list[ToolCallStart] = []
    arguments: list[list[str]] = []
    complete: list[bool] = []
    for event in events:
        match event:
            case ContentDelta(text):
                content.append(text)
            case ReasoningDelta(text):
                reasoning.append(text)
            case ToolCallStart():
                starts.append(event)
                arguments.append([])
                complete.append(False)
            case ArgumentsDelta(index, text):
                arguments[index].append(text)
            case ToolCallEnd(index, is_complete):
                complete[index] = is_complete
    calls = tuple(
        ToolCall(start.id, start.name, "".join(pieces), is_complete)
        for start, pieces, is_complete in zip(starts, arguments, complete, strict=True)
    )
    return ParsedOutput("".join(content), "".join(reasoning), calls)
