"""A message as the wire shows it, and the events of one that is streamed. Data only."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

StopReason = Literal["end_turn", "max_tokens", "stop_sequence", "tool_use"]


class TextContent(msgspec.Struct, kw_only=True, tag_field="type", tag="text"):
    text: str
    citations: None = None


class ThinkingContent(msgspec.Struct, kw_only=True, tag_field="type", tag="thinking"):
    """The signature is empty: thinking that comes back is believed."""

    thinking: str
    signature: str = ""


class ToolUseContent(msgspec.Struct, kw_only=True, tag_field="type", tag="tool_use"):
    id: str
    name: str
    input: dict[str, Any]


Content = TextContent | ThinkingContent | ToolUseContent


class MessageUsage(msgspec.Struct, frozen=True, kw_only=True):
    """What was found in the cache is not among `input_tokens`."""

    input_tokens: int
    output_tokens: int
    cache_creation_input_tokens: int = 0
    cache_read_input_tokens: int = 0


class Message(msgspec.Struct, kw_only=True):
    id: str
    type: Literal["message"] = "message"
    role: Literal["assistant"] = "assistant"
    model: str
    content: list[Content] = []
    stop_reason: StopReason | None = None
    stop_sequence: str | None = None
    usage: MessageUsage


class TokenCount(msgspec.Struct, frozen=True, kw_only=True):
    input_tokens: int


class MessageEvent(msgspec.Struct, frozen=True, kw_only=True):
    """What all events have."""

    type: str


class MessageStart(MessageEvent, frozen=True, kw_only=True):
    type: Literal["message_start"] = "message_start"
    message: Message


class BlockStart(MessageEvent, frozen=True, kw_only=True):
    type: Literal["content_block_start"] = "content_block_start"
    index: int
    content_block: Content


class Delta(msgspec.Struct, frozen=True, kw_only=True):
    """More of a block; its type says which field it has."""

    type: Literal["text_delta", "thinking_delta", "signature_delta", "input_json_delta"]
    text: str | UnsetType = UNSET
    thinking: str | UnsetType = UNSET
    signature: str | UnsetType = UNSET
    partial_json: str | UnsetType = UNSET


class BlockDelta(MessageEvent, frozen=True, kw_only=True):
    type: Literal["content_block_delta"] = "content_block_delta"
    index: int
    delta: Delta


class BlockStop(MessageEvent, frozen=True, kw_only=True):
    type: Literal["content_block_stop"] = "content_block_stop"
    index: int


class Stop(msgspec.Struct, frozen=True, kw_only=True):
    stop_reason: StopReason
    stop_sequence: str | None


class MessageDelta(MessageEvent, frozen=True, kw_only=True):
    type: Literal["message_delta"] = "message_delta"
    delta: Stop
    usage: MessageUsage


class MessageStop(MessageEvent, frozen=True, kw_only=True):
    type: Literal["message_stop"] = "message_stop"
