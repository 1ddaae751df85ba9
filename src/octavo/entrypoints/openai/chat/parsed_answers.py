"""The answers of a chat, taken apart: text, reasoning and calls as they come. Knows no wire.

The sum of the events is the same however the engine's outputs were cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from octavo.core.outputs import SequenceOutput
from octavo.engine.answer_form import AnswerForm, ReasoningTokens
from octavo.entrypoints.openai.generation.answers import ChoiceRecord, wire_finish_reason
from octavo.entrypoints.openai.generation.objects import FinishReason
from octavo.entrypoints.openai.generation.usage import UsageCounter
from octavo.entrypoints.openai.intake.open_requests import Generation
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


@dataclass(frozen=True, slots=True)
class Reading:
    """How an answer is to be read. `state` is where its prompt ends, and `tokens` are the marks of
    reasoning, if they are tokens. Without `include_reasoning` nobody hears of that."""

    form: AnswerForm
    state: ReasoningState = "none"
    tokens: ReasoningTokens | None = None
    include_reasoning: bool = True


class ParsedAnswers:
    """The choices of one generation: `parse` is given each of its outputs, which `counter` then has
    counted."""

    def __init__(self, generation: Generation, reading: Reading) -> None:
        self._generation = generation
        self.counter = UsageCounter(generation.requests)
        if reading.tokens is not None:
            self.counter.num_reasoning_tokens = 0
        self._choices = [_Choice(reading) for _ in range(generation.num_choices)]

    def parse(self, choice: int, output: SequenceOutput) -> AnswerDelta:
        self.counter.add(choice, output)
        if self.counter.num_reasoning_tokens is not None:
            num_tokens = self._choices[choice].num_reasoning(output.token_ids)
            self.counter.num_reasoning_tokens += num_tokens
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

    def __init__(self, reading: Reading) -> None:
        self._form = reading.form
        self._parser: OutputParser | None = None
        if not self._form.is_plain:
            self._parser = self._form.parser(reading.state)
        self._reading = reading
        self._is_reasoning = reading.state == "open"
        self._is_at_start = True
        self._has_calls = False

    def num_reasoning(self, token_ids: Sequence[int]) -> int:
        """How many of the next tokens stand between the marks of reasoning."""
        tokens, num_tokens = self._reading.tokens, 0
        assert tokens is not None
        for token_id in token_ids:
            if self._is_reasoning and token_id == tokens.end:
                self._is_reasoning = False
            elif self._is_at_start and token_id == tokens.begin:
                self._is_reasoning = True
            else:
                num_tokens += self._is_reasoning
            self._is_at_start = False
        return num_tokens

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
                return self._reading.include_reasoning
            case ToolCallStart(index) | ArgumentsDelta(index) | ToolCallEnd(index):
                return index == 0 or not self._form.is_single
        return True
