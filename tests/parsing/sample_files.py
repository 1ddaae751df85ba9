"""Model-style answers written for these tests, one file per dialect, and how to parse them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import yaml

from octavo.parsing.emitter import Schema
from octavo.parsing.events import ArgumentsDelta, ContentDelta, Event, ReasoningDelta
from octavo.parsing.parser import OutputParser
from octavo.parsing.registry import reasoning_dialect, tool_dialect

TOOLS: dict[str, Schema] = {
    "get_weather": {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    },
    "search": {
        "type": "object",
        "properties": {
            "query": {"type": "string"},
            "tags": {"type": "array"},
            "filters": {"type": "object"},
            "limit": {"type": ["integer", "null"]},
            "exact": {"anyOf": [{"type": "boolean"}, {"type": "null"}]},
        },
    },
    "run": {"type": "object", "properties": {"code": {"type": "string"}}},
}


@dataclass(frozen=True)
class Sample:
    dialect: str
    name: str
    text: str
    content: str
    reasoning: str
    calls: tuple[tuple[str, str, bool, str | None], ...]
    reasoning_dialect: str | None
    reasoning_open: bool

    def parser(self) -> OutputParser:
        numbers = count()
        return OutputParser(
            tool_dialect(self.dialect),
            reasoning_dialect(self.reasoning_dialect) if self.reasoning_dialect else None,
            TOOLS,
            reasoning_open=self.reasoning_open,
            new_id=lambda: f"call_{next(numbers)}",
        )

    def parse(self, pieces: Iterable[str]) -> list[Event]:
        parser = self.parser()
        events = [event for piece in pieces for event in parser.feed(piece)]
        return events + parser.finish()


def read_samples() -> list[Sample]:
    files = sorted((Path(__file__).parent / "samples").glob("*.yaml"))
    return [_sample(path.stem, row) for path in files for row in yaml.safe_load(path.read_text())]


def _sample(dialect: str, row: dict[str, object]) -> Sample:
    calls = row.get("calls", [])
    assert isinstance(calls, list)
    return Sample(
        dialect=dialect,
        name=str(row["name"]),
        text=str(row["text"]),
        content=str(row.get("content", "")),
        reasoning=str(row.get("reasoning", "")),
        calls=tuple(
            (call[0], call[1], "broken" not in call[2:3], call[3] if len(call) > 3 else None)
            for call in calls
        ),
        reasoning_dialect=str(name) if (name := row.get("reasoning_dialect")) else None,
        reasoning_open=bool(row.get("reasoning_open")),
    )


def joined(events: list[Event]) -> list[Event]:
    """The events with deltas of one kind that follow each other as one."""
    result: list[Event] = []
    for event in events:
        match (result[-1] if result else None, event):
            case (ContentDelta(first), ContentDelta(second)):
                result[-1] = ContentDelta(first + second)
            case (ReasoningDelta(first), ReasoningDelta(second)):
                result[-1] = ReasoningDelta(first + second)
            case (ArgumentsDelta(index, first), ArgumentsDelta(_, second)):
                result[-1] = ArgumentsDelta(index, first + second)
            case _:
                result.append(event)
    return result
