"""From the body of a response to that of a chat, and errors of a chat in the response's terms.

Knows no engine and no store.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType

import msgspec

from octavo.entrypoints.openai.chat.request import ChatRequest
from octavo.entrypoints.openai.chat.tool_fields import (
    AllowedTools,
    FunctionBody,
    FunctionName,
    NamedTool,
    ToolBody,
    ToolChoiceBody,
)
from octavo.entrypoints.openai.generation.structured_fields import (
    Document,
    JsonSchemaFormat,
    ResponseFormat,
)
from octavo.entrypoints.openai.responses_api.items import Message
from octavo.entrypoints.openai.responses_api.request import (
    ChosenTool,
    FunctionTool,
    ResponsesRequest,
    TextFormat,
)
from octavo.errors import InvalidRequest, RequestError, UnsupportedParameter

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
_FUNCTION = re.compile(r"(tools\[\d+\])\.function\b")


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


@contextmanager
def in_terms_of_responses() -> Iterator[None]:
    """Whoever sends a response does not know the fields of a chat."""
    try:
        yield
    except RequestError as error:
        error.message = _renamed(error.message)
        error.param = error.param and _renamed(error.param)
        raise


def _renamed(text: str) -> str:
    text = _FUNCTION.sub(r"\1", text)
    return _NAME.sub(lambda match: _NAMES[match[1]], text)


def function_tools(given: Sequence[Document] | None) -> list[FunctionTool]:
    """Raises `UnsupportedParameter` for tools that are not the client's own functions."""
    tools = []
    for index, tool in enumerate(given or ()):
        where = f"tools[{index}]"
        if tool.get("type") != "function":
            raise UnsupportedParameter(
                f"{where}.type is {str(tool.get('type'))[:48]!r}; only 'function' is supported",
                param=f"{where}.type",
                code="unsupported_parameter",
            )
        try:
            tools.append(msgspec.convert(tool, FunctionTool))
        except msgspec.ValidationError as error:
            raise InvalidRequest(f"{where}: {error}", param=where) from None
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
        if choice.name is None:
            raise InvalidRequest("tool_choice has no name", param="tool_choice")
        return ToolChoiceBody("function", FunctionName(choice.name))
    named = [NamedTool("function", FunctionName(tool.name)) for tool in choice.tools or ()]
    return ToolChoiceBody("allowed_tools", allowed_tools=AllowedTools(choice.mode or "auto", named))


def _format(given: TextFormat | None) -> ResponseFormat | None:
    if given is None or given.type == "text":
        return None
    if given.type == "json_object":
        return ResponseFormat("json_object")
    schema = JsonSchemaFormat(given.name, given.description, given.schema, given.strict)
    return ResponseFormat("json_schema", json_schema=schema)
