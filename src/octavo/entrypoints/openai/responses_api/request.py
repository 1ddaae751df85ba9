"""The body of `POST /v1/responses`, field by field. Knows no engine and no store."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from octavo.entrypoints.openai.bodies.body import EngineBody, Label, Unsupported
from octavo.entrypoints.openai.generation.structured_fields import Document

Item = dict[str, Any]
"""What its `type` says it is; read by `items`."""

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]


class FunctionTool(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Only functions of the client: the server has no tools of its own."""

    type: str
    name: str
    description: str | None = None
    parameters: Document | None = None
    strict: bool | None = None


class AllowedFunction(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    type: Literal["function"]
    name: str


class ChosenTool(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One function, or some of them."""

    type: Literal["function", "allowed_tools"]
    name: str | None = None
    mode: Literal["auto", "required"] | None = None
    tools: list[AllowedFunction] | None = None


class TextFormat(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    type: Literal["text", "json_object", "json_schema"]
    name: str | None = None
    description: str | None = None
    schema: Document | None = None
    strict: bool | None = None


class TextConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    format: TextFormat | None = None
    verbosity: Literal["medium"] | None = None


class Reasoning(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Nothing is summarised: "auto" leaves that to the server."""

    effort: Effort | None = None
    summary: Literal["auto"] | None = None
    generate_summary: Literal["auto"] | None = None


class StreamOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    include_obfuscation: Literal[False] | None = None


class ResponsesRequest(EngineBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`max_tool_calls` bounds tools of the server, of which there are none."""

    input: str | list[Item]
    instructions: str | None = None
    tools: list[Document] | None = None
    tool_choice: Literal["none", "auto", "required"] | ChosenTool | None = None
    parallel_tool_calls: bool | None = None
    max_tool_calls: int | None = None
    text: TextConfig | None = None
    reasoning: Reasoning | None = None
    max_output_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_logprobs: int | None = None
    include: list[Literal["message.output_text.logprobs", "reasoning.encrypted_content"]] | None = (
        None
    )
    previous_response_id: str | None = None
    store: bool | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    background: bool | None = None
    truncation: Literal["auto", "disabled"] | None = None
    service_tier: Literal["auto", "default"] | None = None
    safety_identifier: Label = None
    prompt_cache_key: Label = None
    access_programs: Unsupported = None
    background_options: Unsupported = None
    context_management: Unsupported = None
    conversation: Unsupported = None
    image: Unsupported = None
    moderation: Unsupported = None
    moderation_policy: Unsupported = None
    prompt: Unsupported = None
    prompt_cache_options: Unsupported = None
    prompt_cache_retention: Unsupported = None
