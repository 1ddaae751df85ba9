"""The answers of a chat, taken apart: text, reasoning and calls as they come. Knows no wire.

The sum of the events is the same however the engine's outputs were cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from octavo.core.outputs import SequenceOutput
from octavo.engine.answer_form import AnswerForm
from octavo.entrypoints.openai.answers import ChoiceRecord, wire_finish_reason
from octavo.entrypoints.openai.open_requests import Generation
from octavo.entrypoints.openai.responses import FinishReason
from octavo.entrypoints.openai.usage import UsageCounter
from octavo.parsing.events import (
    ArgumentsDelta,
    ContentDelta,
    Event,
    ParsedOutput,
    ReasoningDelta,
    ToolCallEnd,
    ToolCallStart,
    gather,
)
from octavo.parsing.parser import OutputParser
from octavo.structured.answer_grammar import ReasoningState


@dataclass(frozen=True, slots=True)
class AnswerDelta:
    """What is new of one choice. `output` is what it was parsed from: ids and log probabilities.
    `finish_reason` comes with the last delta of the choice, after its events."""

    choice: int
    events: Sequence[Event]
    output: SequenceOutput
    finish_reason: FinishReason | None


@dataclass(frozen=True, slots=True)
class WholeAnswer:
    """One choice at its end. `record.text` is what the model wrote before it was taken apart."""

    record: ChoiceRecord
    parsed: ParsedOutput
    finish_reason: FinishReason


class ParsedAnswers:
    """The choices of one generation: `parse` is given each of its outputs, which `counter` then has
    counted."""

    def __init__(
        self,
        generation: Generation,
        form: AnswerForm,
        *,
        reasoning_state: ReasoningState,
        include_reasoning: bool,
    ) -> None:
        self._generation = generation
        self.counter = UsageCounter(generation.requests)
        self._choices = [
            _Choice(form, reasoning_state, include_reasoning=include_reasoning)
            for _ in range(generation.num_choices)
        ]

    def parse(self, choice: int, output: SequenceOutput) -> AnswerDelta:
        self.counter.add(choice, output)
        return self._choices[choice].delta(choice, output)

    async def collect(self) -> list[WholeAnswer]:
        """Wait for all of it. Raises as `Generation.news`."""
        records = [ChoiceRecord() for _ in self._choices]
        events: list[list[Event]] = [[] for _ in self._choices]
        reasons: list[FinishReason] = ["stop"] * len(records)
        while news := await self._generation.news():
            for choice, output in news:
                delta = self.parse(choice, output)
                records[choice].add(output)
                events[choice] += delta.events
                reasons[choice] = delta.finish_reason or reasons[choice]
        return [
            WholeAnswer(record, gather(seen), reason)
            for record, seen, reason in zip(records, events, reasons, strict=True)
        ]


class _Choice:
    """One answer's parser, and what the client wants to see of what it finds."""

    def __init__(
        self, form: AnswerForm, reasoning_state: ReasoningState, *, include_reasoning: bool
    ) -> None:
        self._parser: OutputParser | None = None
        if not form.is_plain:
            self._parser = form.parser(reasoning_state)
        self._form = form
        self._include_reasoning = include_reasoning
        self._has_calls = False

    def delta(self, choice: int, output: SequenceOutput) -> AnswerDelta:
        events = self._events(output.text, is_last=output.finish_reason is not None)
        self._has_calls |= any(isinstance(event, ToolCallStart) for event in events)
        return AnswerDelta(choice, events, output, self._finish_reason(output))

    def _events(self, text: str, *, is_last: bool) -> list[Event]:
        if self._parser is None:
            return [ContentDelta(text)] if text else []
        events = self._parser.feed(text) if text else []
        if is_last:
            events += self._parser.finish()
        return [event for event in events if self._is_seen(event)]

    def _finish_reason(self, output: SequenceOutput) -> FinishReason | None:
        """As OpenAI's: an answer that calls the one function that was named just stops."""
        if output.finish_reason is None:
            return None
        reason = wire_finish_reason(output)
        is_call = reason == "stop" and self._has_calls and not self._form.is_named
        return "tool_calls" if is_call else reason

    def _is_seen(self, event: Event) -> bool:
        match event:
            case ReasoningDelta():
                return self._include_reasoning
            case ToolCallStart(index) | ArgumentsDelta(index) | ToolCallEnd(index):
                return index == 0 or not self._form.is_single
        return True
