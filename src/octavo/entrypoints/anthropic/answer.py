"""The wire form of one message: whole, or as events. Both are made of the same blocks.

Knows no engine and no dialect.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

import msgspec
from starlette.responses import Response

from octavo.core.outputs import SequenceOutput
from octavo.entrypoints.anthropic.errors import message_error
from octavo.entrypoints.anthropic.objects import (
    BlockDelta,
    BlockStart,
    BlockStop,
    Content,
    Delta,
    Message,
    MessageDelta,
    MessageEvent,
    MessageStart,
    MessageStop,
    MessageUsage,
    Stop,
    StopReason,
    TextContent,
    ThinkingContent,
    ToolUseContent,
)
from octavo.entrypoints.openai.bodies.ids import new_id
from octavo.entrypoints.openai.chat.parsed_answers import AnswerDelta, ParsedAnswers
from octavo.entrypoints.openai.chat.turn import ChatTurn
from octavo.entrypoints.openai.generation.objects import FinishReason, Usage
from octavo.entrypoints.openai.http.errors import ErrorDetail, json_response
from octavo.entrypoints.openai.http.streaming import named_event
from octavo.entrypoints.openai.intake.open_requests import Generation
from octavo.parsing.events import (
    ArgumentsDelta,
    ContentDelta,
    Event,
    ReasoningDelta,
    ToolCallEnd,
    ToolCallStart,
)

PING_EVENT = b'event: ping\ndata: {"type":"ping"}\n\n'

_STOP_REASONS: Mapping[FinishReason, StopReason] = MappingProxyType(
    {"length": "max_tokens", "tool_calls": "tool_use"}
)


class Blocks:
    """The content of a message as it comes. Each change gives the events that say so."""

    def __init__(self) -> None:
        self.content: list[Content] = []
        self._texts: list[str] = []  # of the last block, while it is open
        self._is_open = False

    @property
    def has_calls(self) -> bool:
        return any(isinstance(block, ToolUseContent) for block in self.content)

    def add(self, event: Event) -> Iterator[MessageEvent]:
        match event:
            case ContentDelta(text):
                yield from self._open_as(TextContent(text=""))
                yield self._said(text, Delta(type="text_delta", text=text))
            case ReasoningDelta(text):
                yield from self._open_as(ThinkingContent(thinking=""))
                yield self._said(text, Delta(type="thinking_delta", thinking=text))
            case ToolCallStart(_, call_id, name):
                yield from self.close()
                yield from self._open_as(ToolUseContent(id=call_id, name=name, input={}))
            case ArgumentsDelta(_, text):
                yield self._said(text, Delta(type="input_json_delta", partial_json=text))
            case ToolCallEnd():
                yield from self.close()

    def close(self) -> Iterator[MessageEvent]:
        """Nothing more comes for the block that is open, if one is."""
        if not self._is_open:
            return
        self._is_open = False
        block, text = self.content[-1], "".join(self._texts)
        index = len(self.content) - 1
        match block:
            case TextContent():
                block.text = text
            case ThinkingContent():
                block.thinking = text
                yield BlockDelta(index=index, delta=Delta(type="signature_delta", signature=""))
            case ToolUseContent():
                block.input = _object(text)
        yield BlockStop(index=index)

    def _open_as(self, block: Content) -> Iterator[MessageEvent]:
        """Go on with the open block if it is of this kind."""
        if self._is_open and type(self.content[-1]) is type(block):
            return
        yield from self.close()
        self.content.append(block)
        self._texts = []
        self._is_open = True
        yield BlockStart(index=len(self.content) - 1, content_block=block)

    def _said(self, text: str, delta: Delta) -> BlockDelta:
        self._texts.append(text)
        return BlockDelta(index=len(self.content) - 1, delta=delta)


def _object(arguments: str) -> dict[str, object]:
    """What a call says; nothing if it broke off."""
    try:
        return msgspec.json.decode(arguments, type=dict[str, object])
    except msgspec.DecodeError:
        return {}


class MessageMaker:
    """Brings a message from nothing to what the engine says, output by output."""

    def __init__(self, message_id: str, model: str, answers: ParsedAnswers) -> None:
        self._answers = answers
        self._blocks = Blocks()
        self.message = Message(id=message_id, model=model, usage=self._usage())

    def add(self, choice: int, output: SequenceOutput) -> Iterator[MessageEvent]:
        """The events that say so. The last output makes the message complete."""
        delta = self._answers.parse(choice, output)
        for event in delta.events:
            yield from self._blocks.add(event)
        if delta.finish_reason is not None:
            yield from self._blocks.close()
            self._complete(delta, delta.finish_reason)

    def _complete(self, delta: AnswerDelta, reason: FinishReason) -> None:
        message, stop = self.message, delta.output.stop_reason
        message.content = list(self._blocks.content)
        message.usage = self._usage()
        message.stop_reason = _STOP_REASONS.get(reason, "end_turn")
        if reason == "stop" and self._blocks.has_calls:  # of the one tool that was named
            message.stop_reason = "tool_use"
        elif reason == "stop" and isinstance(stop, str):
            message.stop_reason, message.stop_sequence = "stop_sequence", stop

    def _usage(self) -> MessageUsage:
        usage: Usage = self._answers.counter.usage()
        num_cached = usage.prompt_tokens_details.cached_tokens
        return MessageUsage(
            input_tokens=usage.prompt_tokens - num_cached,
            output_tokens=usage.completion_tokens,
            cache_read_input_tokens=num_cached,
        )


class MessageAnswer:
    def __init__(self, turn: ChatTurn, model: str) -> None:
        self.id = new_id("msg_")
        self._turn = turn
        self._model = model

    async def whole(self, generation: Generation) -> Response:
        maker = self._maker(generation)
        while news := await generation.news():
            for choice, output in news:
                for _ in maker.add(choice, output):
                    pass
        return json_response(maker.message)

    def writer(self, generation: Generation) -> MessageEvents:
        return MessageEvents(self._maker(generation))

    def _maker(self, generation: Generation) -> MessageMaker:
        return MessageMaker(self.id, self._model, self._turn.answers(generation))


class MessageEvents:
    """The message without content, its blocks, why it stopped, and that it did."""

    ping = PING_EVENT

    def __init__(self, maker: MessageMaker) -> None:
        self._maker = maker

    def begin(self) -> bytes:
        return _encoded(MessageStart(message=self._maker.message))

    def write(self, choice: int, output: SequenceOutput) -> bytes:
        return b"".join([_encoded(event) for event in self._maker.add(choice, output)])

    def end(self) -> bytes:
        message = self._maker.message
        assert message.stop_reason is not None, "the last output says it"
        stop = Stop(stop_reason=message.stop_reason, stop_sequence=message.stop_sequence)
        delta = MessageDelta(delta=stop, usage=message.usage)
        return _encoded(delta) + _encoded(MessageStop())

    def fail(self, error: ErrorDetail) -> bytes:
        return named_event("error", message_error(error, 0))


def _encoded(event: MessageEvent) -> bytes:
    return named_event(event.type, event)
