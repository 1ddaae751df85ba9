"""The fields that speak of tools and of reasoning. Knows no engine."""

from __future__ import annotations

from octavo.entrypoints.openai.body import Unsupported
from octavo.entrypoints.openai.generation_request import GenerationRequest


class ToolFields(GenerationRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What only chats have of it."""

    tool_choice: Unsupported = None
    tools: Unsupported = None
    parallel_tool_calls: Unsupported = None
    functions: Unsupported = None
    function_call: Unsupported = None
    reasoning_effort: Unsupported = None
    include_reasoning: Unsupported = None
    thinking_token_budget: Unsupported = None
