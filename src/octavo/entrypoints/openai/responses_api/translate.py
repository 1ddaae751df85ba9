"""From the body of a response to that of a chat, and errors of a chat in the response's terms.

Knows no engine and no store.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from types import MappingProxyType

from octavo.entrypoints.openai.chat.request import ChatRequest
from octavo.entrypoints.openai.chat.tool_fields import (
    AllowedTools,
    FunctionBody,
    FunctionName,
    NamedTool,
    ToolBody,
    ToolChoiceBody,
)
from octavo.entrypoints.openai.chat.translation import (
    Message,
    chosen_function,
    in_other_terms,
    read_part,
    unsupported_type,
    without_functions,
)
from octavo.entrypoints.openai.generation.structured_fields import (
    Document,
    JsonSchemaFormat,
    ResponseFormat,
)
from octavo.entrypoints.openai.responses_api.request import (
    ChosenTool,
    FunctionTool,
    ResponsesRequest,
    TextFormat,
)

LOGPROBS = "message.output_text.logprobs"

_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "messages": "input",
        "max_completion_tokens": "max_output_tokens",
        "max_tokens": "max_output_tokens",
        "response_format": "text.format",
        "reasoning_effort": "reasoning.effort",
    }
)
_NAME = re.compile(rf"\b({'|'.join(_NAMES)})\b")


def chat_request(body: ResponsesRequest, messages: Sequence[Message]) -> ChatRequest:
    """Raises `InvalidRequest` or `UnsupportedParameter`."""
    wants_logprobs = LOGPROBS in (body.include or ()) or bool(body.top_logprobs)
    instructions = body.instructions
    system = [] if instructions is None else [{"role": "system", "content": instructions}]
    return ChatRequest(
        model=body.model,
        user=body.user,
        request_id=body.request_id,
        cache_salt=body.cache_salt,
        priority=body.priority,
        timeout=body.timeout,
        messages=[*system, *messages],
        tools=_tools(body.tools),
        tool_choice=_choice(body.tool_choice),
        parallel_tool_calls=body.parallel_tool_calls,
        response_format=_format(body.text.format if body.text else None),
        reasoning_effort=body.reasoning.effort if body.reasoning else None,
        max_completion_tokens=body.max_output_tokens,
        temperature=body.temperature,
        top_p=body.top_p,
        logprobs=wants_logprobs,
        top_logprobs=body.top_logprobs,
        stream=body.stream,
    )


def in_terms_of_responses() -> AbstractContextManager[None]:
    """Whoever sends a response does not know the fields of a chat."""
    return in_other_terms(_renamed)


def _renamed(text: str) -> str:
    return _NAME.sub(lambda match: _NAMES[match[1]], without_functions(text))


def function_tools(given: Sequence[Document] | None) -> list[FunctionTool]:
    """Raises `UnsupportedParameter` for tools that are not the client's own functions."""
    tools = []
    for index, tool in enumerate(given or ()):
        where = f"tools[{index}]"
        if tool.get("type") != "function":
            raise unsupported_type(tool.get("type"), where, "only 'function' is", f"{where}.type")
        tools.append(read_part(tool, FunctionTool, where))
    return tools


def _tools(given: Sequence[Document] | None) -> list[ToolBody] | None:
    if given is None:
        return None
    return [
        ToolBody(
            "function", FunctionBody(tool.name, tool.description, tool.parameters, tool.strict)
        )
        for tool in function_tools(given)
    ]


def _choice(
    choice: ChosenTool | str | None,
) -> ToolChoiceBody | None:
    if choice is None or isinstance(choice, str):
        return choice  # type: ignore[return-value]  # one of the words that a chat has, too
    if choice.type == "function":
        return chosen_function(choice.name)
    named = [NamedTool("function", FunctionName(tool.name)) for tool in choice.tools or ()]
    return ToolChoiceBody("allowed_tools", allowed_tools=AllowedTools(choice.mode or "auto", named))


def _format(given: TextFormat | None) -> ResponseFormat | None:
    if given is None or given.type == "text":
        return None
    if given.type == "json_object":
        return ResponseFormat("json_object")
    schema = JsonSchemaFormat(given.name, given.description, given.schema, given.strict)
    return ResponseFormat("json_schema", json_schema=schema)
