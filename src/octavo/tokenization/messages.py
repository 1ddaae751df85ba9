"""Chat messages as clients send them, put into the shape that chat templates expect.

Rules: a content of null is an empty text; a list of text parts becomes one text, joined by a
newline, for templates that cannot loop over parts; a tool call's arguments, which the API carries
as JSON text, become the object they describe; an answer's reasoning is found under both of its
names; a tool's result has the name of the tool that its call named; a developer's message is a
system message for templates of before that name. Nothing is changed in place.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from octavo.errors import TemplateError

MAX_DEPTH: Final = 64
_REASONING: Final = ("reasoning", "reasoning_content")

Message = Mapping[str, object]


def prepare_messages(
    messages: Sequence[Message], *, keeps_parts: bool, knows_developer: bool
) -> list[dict[str, object]]:
    """Raises `TemplateError` for a message that is no object, has no role, or has a content part
    that is not text."""
    prepared = [
        _prepare(message, f"messages[{index}]", keeps_parts)
        for index, message in enumerate(messages)
    ]
    names: dict[object, object] = {}
    for message in prepared:
        if message["role"] == "developer" and not knows_developer:
            message["role"] = "system"
        names |= _called_names(message)
        if message["role"] == "tool" and not message.get("name"):
            message |= _known(names, message.get("tool_call_id"))
    return prepared


def _called_names(message: Message) -> dict[object, object]:
    """The tools that a message calls, by the ids of the calls."""
    calls = message.get("tool_calls")
    named = {}
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function")
        if isinstance(call.get("id"), str) and isinstance(function, Mapping):
            named[call["id"]] = function.get("name")
    return named


def _known(names: Mapping[object, object], call_id: object) -> dict[str, object]:
    name = names.get(call_id) if isinstance(call_id, str) else None
    return {} if name is None else {"name": name}


def _prepare(message: Message, where: str, keeps_parts: bool) -> dict[str, object]:
    if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
        raise _refused(f"{where} must be an object with a text `role`")
    prepared = dict(message)
    prepared["content"] = _content(message.get("content"), where, keeps_parts)
    if message.get("tool_calls"):
        prepared["tool_calls"] = _tool_calls(message["tool_calls"], where)
    for name, other in (_REASONING, _REASONING[::-1]):
        if prepared.get(name) and not prepared.get(other):
            prepared[other] = prepared[name]
    return prepared


def _content(content: object, where: str, keeps_parts: bool) -> object:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise _refused(f"{where}.content must be text, a list of text parts or null")
    texts = [_part_text(part, where) for part in content]
    if keeps_parts:
        return [{"type": "text", "text": text} for text in texts]
    return "\n".join(texts)


def _part_text(part: object, where: str) -> str:
    if isinstance(part, Mapping) and part.get("type") == "text":
        text = part.get("text")
        if isinstance(text, str):
            return text
    kind = part.get("type") if isinstance(part, Mapping) else None
    raise _refused(f"{where}.content has a part of type {kind!r:.40}; only 'text' is supported")


def _tool_calls(tool_calls: object, where: str) -> list[object]:
    if not isinstance(tool_calls, list):
        raise _refused(f"{where}.tool_calls must be a list")
    return [_tool_call(call, where) for call in tool_calls]


def _tool_call(call: object, where: str) -> object:
    if not isinstance(call, Mapping):
        raise _refused(f"{where}.tool_calls must hold objects")
    function = call.get("function")
    if not isinstance(function, Mapping) or not isinstance(function.get("arguments"), str):
        return dict(call)
    return {**call, "function": {**function, "arguments": _parsed(function["arguments"])}}


def _parsed(arguments: object) -> object:
    """The object that the text describes; the text itself if it describes none."""
    try:
        value = json.loads(str(arguments))
    except (ValueError, RecursionError):
        return arguments
    return value if isinstance(value, dict) else arguments


def map_texts(value: object, change: Callable[[str], str], *, depth: int = 0) -> object:
    """`value` with every text in it changed, keys of objects too. Raises `TemplateError` for one
    that is nested deeper than `MAX_DEPTH`."""
    if depth > MAX_DEPTH:
        raise _refused(f"messages are nested deeper than {MAX_DEPTH}")
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {
            map_texts(key, change, depth=depth + 1): map_texts(item, change, depth=depth + 1)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [map_texts(item, change, depth=depth + 1) for item in value]
    return value


def _refused(message: str) -> TemplateError:
    return TemplateError(message, param="messages")
