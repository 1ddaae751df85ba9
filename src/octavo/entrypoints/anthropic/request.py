"""The bodies of `POST /v1/messages` and of its count of tokens, field by field. Knows no engine."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from octavo.entrypoints.openai.bodies.body import EngineBody, Unsupported
from octavo.entrypoints.openai.generation.structured_fields import Document

Block = dict[str, Any]
"""What its `type` says it is; read by `translate`."""


class MessageParam(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    role: Literal["user", "assistant", "system"]
    content: str | list[Block]


class CacheControl(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The prefix cache keeps every beginning anyway."""

    type: Literal["ephemeral"]
    ttl: Literal["5m", "1h"] | None = None


class ToolParam(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Only tools of the client: the server has none of its own."""

    name: str
    input_schema: Document
    description: str | None = None
    strict: bool | None = None
    type: Literal["custom"] | None = None
    cache_control: CacheControl | None = None
    eager_input_streaming: bool | None = None


class ToolChoice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class Thinking(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    type: Literal["enabled", "disabled", "adaptive"]
    budget_tokens: int | None = None
    display: Literal["summarized", "omitted"] | None = None


class OutputFormat(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    type: Literal["json_schema"]
    schema: Document


class OutputConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    format: OutputFormat | None = None


class PromptBody(EngineBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What decides what the model reads."""

    messages: list[MessageParam]
    system: str | list[Block] | None = None
    tools: list[Document] | None = None
    tool_choice: ToolChoice | None = None
    thinking: Thinking | None = None
    output_config: OutputConfig | None = None
    cache_control: CacheControl | None = None
    speed: Literal["standard"] | None = None
    mcp_servers: Unsupported = None
    context_management: Unsupported = None


class CountTokensRequest(PromptBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`POST /v1/messages/count_tokens`."""


class MessagesRequest(PromptBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`POST /v1/messages`. `metadata` names the user for whoever runs the server."""

    max_tokens: int
    metadata: dict[str, str | None] | None = None  # type: ignore[assignment]  # may say null
    stop_sequences: list[str] | None = None
    stream: bool | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    service_tier: Literal["auto", "standard_only"] | None = None
    container: Unsupported = None
    diagnostics: Unsupported = None
    inference_geo: Unsupported = None
