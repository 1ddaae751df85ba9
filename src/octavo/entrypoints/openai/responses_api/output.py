"""What a model says, as items: reasoning, messages, calls, in the order in which they come.

Whole answers and streams are made here alike, so that they are the same. Knows no engine.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from octavo.entrypoints.openai.bodies.ids import new_id
from octavo.entrypoints.openai.generation.objects import ChatLogprob
from octavo.entrypoints.openai.responses_api.events import (
    CallDelta,
    CallDone,
    ItemEvent,
    ItemEventType,
    PartEvent,
    PartEventType,
    ResponseEvent,
    TextDelta,
    TextDone,
    ThoughtDelta,
    ThoughtDone,
)
from octavo.entrypoints.openai.responses_api.items import sealed
from octavo.entrypoints.openai.responses_api.objects import (
    ItemStatus,
    OutputCall,
    OutputItem,
    OutputMessage,
    OutputReasoning,
    OutputText,
    ReasoningText,
)
from octavo.parsing.events import (
    ArgumentsDelta,
    ContentDelta,
    Event,
    ReasoningDelta,
    ToolCallEnd,
    ToolCallStart,
)


@dataclass(slots=True)
class _Open:
    """The item that is being said, and its place."""

    item: OutputItem
    index: int
    texts: list[str] = field(default_factory=list)
    logprobs: list[ChatLogprob] = field(default_factory=list)


class OutputItems:
    """`add` what comes, then `finish`; each gives the events that say so. `seals`: reasoning is to
    come in a sealed form, too."""

    def __init__(self, *, seals: bool = False) -> None:
        self.items: list[OutputItem] = []
        self.numbers = itertools.count()
        self._seals = seals
        self._open: _Open | None = None

    def add(self, event: Event, logprobs: Sequence[ChatLogprob] = ()) -> Iterator[ResponseEvent]:
        """`logprobs` belong to a text."""
        match event:
            case ContentDelta(text):
                yield from self._text(text, logprobs)
            case ReasoningDelta(text):
                yield from self._thought(text)
            case ToolCallStart(_, call_id, name):
                yield from self._close("completed")
                call = OutputCall(
                    id=new_id("fc_"),
                    status="in_progress",
                    call_id=call_id,
                    name=name,
                    arguments="",
                )
                self._begin(call)
                yield self._item_event("response.output_item.added", call)
            case ArgumentsDelta(_, text):
                place = self._place
                place.texts.append(text)
                yield CallDelta(
                    sequence_number=next(self.numbers),
                    item_id=place.item.id,
                    output_index=place.index,
                    delta=text,
                )
            case ToolCallEnd(_, is_complete):
                yield from self._close("completed" if is_complete else "incomplete")

    def finish(self, *, is_cut: bool) -> Iterator[ResponseEvent]:
        """`is_cut`: the answer broke off. One without anything in it is an empty message."""
        if not self.items:
            yield from self._text("", ())
        yield from self._close("incomplete" if is_cut else "completed")

    def add_logprobs(self, logprobs: Sequence[ChatLogprob]) -> None:
        """Of the text that is being said, if one is, beyond those that came with it."""
        if self._open is not None and isinstance(self._open.item, OutputMessage):
            self._open.logprobs += logprobs

    @property
    def reasoning(self) -> str:
        """All of it, as a text."""
        thoughts = (item for item in self.items if isinstance(item, OutputReasoning))
        return "".join(part.text for thought in thoughts for part in thought.content)

    def _text(self, text: str, logprobs: Sequence[ChatLogprob]) -> Iterator[ResponseEvent]:
        if self._open is None or not isinstance(self._open.item, OutputMessage):
            yield from self._close("completed")
            message = OutputMessage(id=new_id("msg_"), status="in_progress", content=[])
            self._begin(message)
            yield self._item_event("response.output_item.added", message)
            yield self._part_event("response.content_part.added", OutputText(text=""))
        place = self._place
        place.texts.append(text)
        place.logprobs += logprobs
        if text:
            yield TextDelta(
                sequence_number=next(self.numbers),
                item_id=place.item.id,
                output_index=place.index,
                delta=text,
                logprobs=list(logprobs),
            )

    def _thought(self, text: str) -> Iterator[ResponseEvent]:
        if self._open is None or not isinstance(self._open.item, OutputReasoning):
            yield from self._close("completed")
            thought = OutputReasoning(id=new_id("rs_"), status="in_progress", content=[])
            self._begin(thought)
            yield self._item_event("response.output_item.added", thought)
            yield self._part_event("response.content_part.added", ReasoningText(text=""))
        place = self._place
        place.texts.append(text)
        yield ThoughtDelta(
            sequence_number=next(self.numbers),
            item_id=place.item.id,
            output_index=place.index,
            delta=text,
        )

    @property
    def _place(self) -> _Open:
        assert self._open is not None, "an item is open while it is added to"
        return self._open

    def _begin(self, item: OutputItem) -> None:
        self._open = _Open(item, len(self.items))
        self.items.append(item)

    def _close(self, status: ItemStatus) -> Iterator[ResponseEvent]:
        if self._open is None:
            return
        place, item = self._open, self._open.item
        text = "".join(place.texts)
        match item:
            case OutputMessage():
                said = OutputText(text=text, logprobs=place.logprobs)
                item.content = [said]
                yield TextDone(
                    sequence_number=next(self.numbers),
                    item_id=item.id,
                    output_index=place.index,
                    text=text,
                    logprobs=place.logprobs,
                )
                yield self._part_event("response.content_part.done", said)
            case OutputReasoning():
                thought = ReasoningText(text=text)
                item.content = [thought]
                item.encrypted_content = sealed(text) if self._seals else None
                yield ThoughtDone(
                    sequence_number=next(self.numbers),
                    item_id=item.id,
                    output_index=place.index,
                    text=text,
                )
                yield self._part_event("response.content_part.done", thought)
            case OutputCall():
                item.arguments = text
                yield CallDone(
                    sequence_number=next(self.numbers),
                    item_id=item.id,
                    output_index=place.index,
                    name=item.name,
                    arguments=text,
                )
        item.status = status
        yield self._item_event("response.output_item.done", item)
        self._open = None

    def _item_event(self, kind: ItemEventType, item: OutputItem) -> ItemEvent:
        index = self._place.index
        return ItemEvent(
            type=kind, sequence_number=next(self.numbers), output_index=index, item=item
        )

    def _part_event(self, kind: PartEventType, part: OutputText | ReasoningText) -> PartEvent:
        place = self._place
        return PartEvent(
            type=kind,
            sequence_number=next(self.numbers),
            item_id=place.item.id,
            output_index=place.index,
            part=part,
        )
