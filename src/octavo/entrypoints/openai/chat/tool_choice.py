"""From the wire's tools to the form of an answer and to what the chat template is told.

Knows no engine. Raises `InvalidRequest` or `UnsupportedParameter` naming the field.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from octavo.core.tools import Tool
from octavo.engine.answer_form import AnswerForm
from octavo.entrypoints.openai.chat.tool_fields import (
    NamedTool,
    ToolBody,
    ToolChoiceBody,
    ToolFields,
)
from octavo.entrypoints.openai.generation.structured import structured_outputs
from octavo.errors import InvalidRequest, UnsupportedParameter
from octavo.parsing.registry import Dialects

MAX_TOOLS = 128
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_NO_PARAMETERS: Mapping[str, object] = {"type": "object", "properties": {}}


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """`tools` may be called, one of them must with `must_call`, only one call with `is_single`."""

    tools: tuple[Tool, ...] = ()
    must_call: bool = False
    is_single: bool = False
    is_named: bool = False


def tool_choice(body: ToolFields) -> ToolChoice:
    """What the request says about calls."""
    tools = _tools(body.tools or [])
    choice = body.tool_choice
    is_single = body.parallel_tool_calls is False
    if isinstance(choice, ToolChoiceBody):
        return _chosen(choice, tools, is_single)
    if choice == "required" and not tools:
        raise InvalidRequest(
            "tool_choice is 'required' without tools; at least one is needed", param="tool_choice"
        )
    if choice == "none":
        return ToolChoice()
    return ToolChoice(tools, choice == "required", is_single)


def _chosen(choice: ToolChoiceBody, tools: Sequence[Tool], is_single: bool) -> ToolChoice:
    if choice.type == "function" and choice.function and not choice.allowed_tools:
        only = _select(tools, [choice.function.name])
        return ToolChoice(only, must_call=True, is_single=True, is_named=True)
    if choice.type == "allowed_tools" and choice.allowed_tools and not choice.function:
        allowed = choice.allowed_tools
        chosen = _select(tools, [_name_of(tool) for tool in allowed.tools])
        return ToolChoice(chosen, allowed.mode == "required", is_single)
    raise InvalidRequest(
        f"tool_choice of type {choice.type!r} needs {choice.type!r} and nothing else",
        param="tool_choice",
    )


def _name_of(tool: NamedTool) -> str:
    return tool.function.name


def _select(tools: Sequence[Tool], names: Sequence[str]) -> tuple[Tool, ...]:
    by_name = {tool.name: tool for tool in tools}
    for name in names:
        if name not in by_name:
            raise InvalidRequest(
                f"tool_choice has {name[:64]!r}; tools has {', '.join(by_name) or 'none'}",
                param="tool_choice",
            )
    if not names:
        raise InvalidRequest("tool_choice allows no tool", param="tool_choice")
    return tuple(by_name[name] for name in dict.fromkeys(names))


def _tools(bodies: Sequence[ToolBody]) -> tuple[Tool, ...]:
    if len(bodies) > MAX_TOOLS:
        raise InvalidRequest(
            f"tools has {len(bodies)} entries; at most {MAX_TOOLS} are allowed", param="tools"
        )
    tools: dict[str, Tool] = {}
    for index, body in enumerate(bodies):
        name, place = body.function.name, f"tools[{index}].function"
        if not _NAME.fullmatch(name):
            raise InvalidRequest(
                f"{place}.name is {name[:64]!r}; 1 to 64 letters, digits and _.- are allowed",
                param=f"{place}.name",
            )
        if name in tools:
            raise InvalidRequest(f"{place}.name is {name!r} again", param=f"{place}.name")
        parameters = body.function.parameters
        tools[name] = Tool(
            name, _NO_PARAMETERS if parameters is None else parameters, f"{place}.parameters"
        )
    return tuple(tools.values())


def template_tools(body: ToolFields) -> list[object] | None:
    """What the chat template is told: nothing where no tool may be called."""
    if not body.tools or body.tool_choice == "none":
        return None
    return [
        {"type": "function", "function": msgspec.to_builtins(_described(tool))}
        for tool in body.tools
    ]


def _described(tool: ToolBody) -> object:
    return msgspec.structs.replace(tool.function, strict=None)


def answer_form(body: ToolFields, dialects: Dialects, *, takes_auto: bool) -> AnswerForm:
    """`takes_auto`: whether the server lets the model decide if it calls a tool."""
    choice = tool_choice(body)
    if choice.tools and dialects.tools is None:
        raise UnsupportedParameter(
            "tools is given, and nothing is known of how this model writes calls; the server can "
            "be told by --tool-call-parser",
            param="tools",
            code="unsupported_parameter",
        )
    if choice.tools and not choice.must_call and not takes_auto:
        raise UnsupportedParameter(
            "tool_choice is 'auto'; the server runs with --no-enable-auto-tool-choice",
            param="tool_choice",
            code="unsupported_parameter",
        )
    return AnswerForm(
        dialects=dialects,
        tools=choice.tools,
        must_call=choice.must_call,
        is_single=choice.is_single,
        is_named=choice.is_named,
        is_strict=any(tool.function.strict for tool in body.tools or ()),
        outputs=structured_outputs(body),
    )
