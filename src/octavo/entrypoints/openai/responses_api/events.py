"""The events of a streamed response. Data only.

Each is sent under its `type`; `sequence_number` counts the events of one response from 0.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from octavo.entrypoints.openai.generation.objects import ChatLogprob
from octavo.entrypoints.openai.responses_api.objects import (
    OutputItem,
    OutputText,
    ReasoningText,
    ResponseObject,
)

ItemEventType = Literal["response.output_item.added", "response.output_item.done"]
PartEventType = Literal["response.content_part.added", "response.content_part.done"]
StateEventType = Literal[
    "response.created",
    "response.in_progress",
    "response.completed",
    "response.incomplete",
    "response.failed",
]


class ResponseEvent(msgspec.Struct, frozen=True, kw_only=True):
    """What all of them have."""

    type: str
    sequence_number: int


class StateEvent(ResponseEvent, frozen=True, kw_only=True):
    """The whole response, as it is now."""

    type: StateEventType
    response: ResponseObject


class ItemEvent(ResponseEvent, frozen=True, kw_only=True):
    type: ItemEventType
    output_index: int
    item: OutputItem


class PartEvent(ResponseEvent, frozen=True, kw_only=True):
    type: PartEventType
    item_id: str
    output_index: int
    content_index: int = 0
    part: OutputText | ReasoningText


class TextDelta(ResponseEvent, frozen=True, kw_only=True):
    type: Literal["response.output_text.delta"] = "response.output_text.delta"
    item_id: str
    output_index: int
    content_index: int = 0
    delta: str
    logprobs: list[ChatLogprob]


class TextDone(ResponseEvent, frozen=True, kw_only=True):
    type: Literal["response.output_text.done"] = "response.output_text.done"
    item_id: str
    output_index: int
    content_index: int = 0
    text: str
    logprobs: list[ChatLogprob]


class ThoughtDelta(ResponseEvent, frozen=True, kw_only=True):
    type: Literal["response.reasoning_text.delta"] = "response.reasoning_text.delta"
    item_id: str
    output_index: int
    content_index: int = 0
    delta: str


class ThoughtDone(ResponseEvent, frozen=True, kw_only=True):
    type: Literal["response.reasoning_text.done"] = "response.reasoning_text.done"
    item_id: str
    output_index: int
    content_index: int = 0
    text: str


class CallDelta(ResponseEvent, frozen=True, kw_only=True):
    type: Literal["response.function_call_arguments.delta"] = (
        "response.function_call_arguments.delta"
    )
    item_id: str
    output_index: int
    delta: str


class CallDone(ResponseEvent, frozen=True, kw_only=True):
    type: Literal["response.function_call_arguments.done"] = "response.function_call_arguments.done"
    item_id: str
    output_index: int
    name: str
    arguments: str
