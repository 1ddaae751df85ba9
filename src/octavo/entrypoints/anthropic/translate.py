"""From a body of messages to that of a chat, and errors of a chat in its terms. Knows no engine."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Literal

import msgspec
from msgspec.structs import replace

from octavo.entrypoints.anthropic.blocks import chat_messages
from octavo.entrypoints.anthropic.request import (
    MessagesRequest,
    PromptBody,
    Thinking,
    ToolChoice,
    ToolParam,
)
from octavo.entrypoints.openai.chat.request import ChatRequest
from octavo.entrypoints.openai.chat.tool_fields import (
    FunctionBody,
    FunctionName,
    ToolBody,
    ToolChoiceBody,
)
from octavo.entrypoints.openai.generation.structured_fields import (
    Document,
    JsonSchemaFormat,
    ResponseFormat,
)
from octavo.entrypoints.openai.intake.context import ServerContext
from octavo.errors import InvalidRequest, RequestError, UnsupportedParameter

MIN_BUDGET_TOKENS = 1024
THINKING_SWITCHES = frozenset({"reasoning_effort", "enable_thinking", "thinking"})
"""Variables of templates that turn reasoning on and off."""

_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "max_completion_tokens": "max_tokens",
        "response_format": "output_config.format",
        "reasoning_effort": "thinking",
        "thinking_token_budget": "thinking.budget_tokens",
        "stop": "stop_sequences",
    }
)
_NAME = re.compile(rf"\b({'|'.join(_NAMES)})\b(?!\.)")
_FUNCTION = re.compile(r"(tools\[\d+\])\.function\b")


def chat_request(body: PromptBody, context: ServerContext) -> ChatRequest:
    """Raises `InvalidRequest` or `UnsupportedParameter`."""
    messages = chat_messages(body.system, body.messages)
    tools = _tools(body.tools)
    chat = ChatRequest(
        model=body.model,
        request_id=body.request_id,
        cache_salt=body.cache_salt,
        priority=body.priority,
        timeout=body.timeout,
        messages=messages,
        continue_final_message=bool(messages) and messages[-1]["role"] == "assistant",
        tools=tools,
        tool_choice=_choice(body.tool_choice),
        parallel_tool_calls=(
            False if body.tool_choice and body.tool_choice.disable_parallel_tool_use else None
        ),
        response_format=_format(body),
    )
    chat = _with_thinking(chat, body, context)
    return _with_sampling(chat, body) if isinstance(body, MessagesRequest) else chat


def _with_sampling(chat: ChatRequest, body: MessagesRequest) -> ChatRequest:
    if body.max_tokens < 1:
        raise InvalidRequest(
            f"max_tokens is {body.max_tokens}; an integer from 1 is allowed", param="max_tokens"
        )
    return replace(
        chat,
        max_completion_tokens=body.max_tokens,
        stop=body.stop_sequences or None,
        stream=body.stream,
        temperature=body.temperature,
        top_k=body.top_k,
        top_p=body.top_p,
    )


@contextmanager
def in_terms_of_messages() -> Iterator[None]:
    """Whoever sends messages does not know the other fields of a chat."""
    try:
        yield
    except RequestError as error:
        error.message = _renamed(error.message)
        error.param = error.param and _renamed(error.param)
        raise


def _renamed(text: str) -> str:
    text = _FUNCTION.sub(r"\1", text).replace("].parameters", "].input_schema")
    return _NAME.sub(lambda match: _NAMES[match[1]], text)


def _with_thinking(chat: ChatRequest, body: PromptBody, context: ServerContext) -> ChatRequest:
    effort = body.output_config.effort if body.output_config else None
    thinking = body.thinking
    if thinking is None:
        return replace(chat, reasoning_effort=effort) if effort else chat
    _check(thinking, body)
    template = context.inputs.template
    has_switch = template is not None and not THINKING_SWITCHES.isdisjoint(template.variables)
    always_thinks = context.model.dialects.reasoning is not None
    if thinking.type == "disabled":
        if has_switch:
            return replace(chat, reasoning_effort="none")
        return replace(chat, thinking_token_budget=0) if always_thinks else chat
    if not has_switch and not always_thinks:
        raise UnsupportedParameter(
            f"thinking is {thinking.type!r}; this model does not think",
            param="thinking",
            code="unsupported_parameter",
        )
    return replace(
        chat,
        reasoning_effort=(effort or "medium") if has_switch else effort,
        thinking_token_budget=thinking.budget_tokens,
        include_reasoning=thinking.display != "omitted",
    )


def _check(thinking: Thinking, body: PromptBody) -> None:
    budget = thinking.budget_tokens
    if (budget is not None) != (thinking.type == "enabled"):
        raise InvalidRequest(
            f"thinking is {thinking.type!r}; budget_tokens belongs to 'enabled'",
            param="thinking.budget_tokens",
        )
    most = body.max_tokens if isinstance(body, MessagesRequest) else None
    if budget is not None and (budget < MIN_BUDGET_TOKENS or (most is not None and budget >= most)):
        raise InvalidRequest(
            f"thinking.budget_tokens is {budget}; from {MIN_BUDGET_TOKENS} to less than max_tokens "
            "is allowed",
            param="thinking.budget_tokens",
        )


def _tools(given: Sequence[Document] | None) -> list[ToolBody] | None:
    if given is None:
        return None
    return [_tool(tool, f"tools[{index}]") for index, tool in enumerate(given)]


def _tool(given: Document, where: str) -> ToolBody:
    if given.get("type") not in (None, "custom"):
        raise UnsupportedParameter(
            f"{where}.type is {str(given['type'])[:48]!r}; only 'custom' is supported",
            param=f"{where}.type",
            code="unsupported_parameter",
        )
    try:
        tool = msgspec.convert(given, ToolParam)
    except msgspec.ValidationError as error:
        raise InvalidRequest(f"{where}: {error}", param=where) from None
    function = FunctionBody(tool.name, tool.description, tool.input_schema, tool.strict)
    return ToolBody("function", function)


def _choice(
    choice: ToolChoice | None,
) -> Literal["none", "auto", "required"] | ToolChoiceBody | None:
    if choice is None:
        return None
    if choice.type == "tool":
        if choice.name is None:
            raise InvalidRequest("tool_choice has no name", param="tool_choice")
        return ToolChoiceBody("function", FunctionName(choice.name))
    if choice.type == "any":
        return "required"
    return choice.type


def _format(body: PromptBody) -> ResponseFormat | None:
    wanted = body.output_config.format if body.output_config else None
    if wanted is None:
        return None
    return ResponseFormat("json_schema", json_schema=JsonSchemaFormat(schema=wanted.schema))
