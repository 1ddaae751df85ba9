"""The fields that speak of tools and of reasoning. Knows no engine."""

from __future__ import annotations

from typing import Literal

import msgspec

from octavo.entrypoints.openai.bodies.body import Unsupported
from octavo.entrypoints.openai.generation.request import GenerationRequest
from octavo.entrypoints.openai.generation.structured_fields import Document


class FunctionBody(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """`parameters` is a JSON schema."""

    name: str
    description: str | None = None
    parameters: Document | None = None
    strict: bool | None = None


class ToolBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    type: Literal["function"]
    function: FunctionBody


class FunctionName(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str


class NamedTool(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    type: Literal["function"]
    function: FunctionName


class AllowedTools(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    mode: Literal["auto", "required"]
    tools: list[NamedTool]


class ToolChoiceBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One function, or some of them."""

    type: Literal["function", "allowed_tools"]
    function: FunctionName | None = None
    allowed_tools: AllowedTools | None = None


class ToolFields(GenerationRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What only chats have of it. `thinking_token_budget` is how many tokens of reasoning there may
    be."""

    tools: list[ToolBody] | None = None
    tool_choice: Literal["none", "auto", "required"] | ToolChoiceBody | None = None
    parallel_tool_calls: bool | None = None
    include_reasoning: bool = True
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = (
        None
    )
    thinking_token_budget: int | None = None
    functions: Unsupported = None
    function_call: Unsupported = None
