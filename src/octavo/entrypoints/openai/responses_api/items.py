"""Items of a conversation, as clients send them, into messages of a chat. Knows no engine.

A message stands for itself. Reasoning and calls become one message of the assistant with the text
that follows them or comes before, as chat templates want it; results of calls are messages of the
tool.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal

import msgspec

from octavo.entrypoints.openai.chat.translation import Message, read_part, unsupported_type
from octavo.entrypoints.openai.responses_api.request import Item
from octavo.errors import InvalidRequest

_TEXT_PARTS = ("input_text", "output_text", "text", "reasoning_text", "summary_text")
Status = Literal["in_progress", "completed", "incomplete"] | None


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`annotations` and `logprobs` come back with answers; they say nothing to a model."""

    type: str
    text: str | None = None
    refusal: str | None = None
    annotations: list[Any] | None = None
    logprobs: list[Any] | None = None


class MessageItem(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    role: Literal["user", "assistant", "system", "developer"]
    content: str | list[Any]
    type: Literal["message"] = "message"
    id: str | None = None
    status: Status = None
    phase: str | None = None


class CallItem(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    type: Literal["function_call"]
    call_id: str
    name: str
    arguments: str
    id: str | None = None
    status: Status = None


class CallOutputItem(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    type: Literal["function_call_output"]
    call_id: str
    output: str | list[Any]
    id: str | None = None
    status: Status = None


class ReasoningItem(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    type: Literal["reasoning"]
    summary: list[Any] = []
    content: list[Any] | None = None
    encrypted_content: str | None = None
    id: str | None = None
    status: Status = None


def input_items(given: str | Sequence[Item]) -> list[Item]:
    """A text is one message of the user."""
    if isinstance(given, str):
        content = [{"type": "input_text", "text": given}]
        return [{"type": "message", "role": "user", "content": content}]
    return [{"type": "message", **item} if "role" in item else item for item in given]


def messages_of(items: Sequence[Item], first: int = 0) -> list[Message]:
    """Raises `InvalidRequest` or `UnsupportedParameter` naming the item, which the client counts
    from `first` on."""
    made: list[Message] = []
    pending: Message = {}  # what the assistant has thought and called, without its text yet
    for index, item in enumerate(items):
        kind, where = item.get("type"), f"input[{index - first}]"
        read = _READERS.get(kind if isinstance(kind, str) else "")
        if read is None:
            raise unsupported_type(kind, where, f"{', '.join(_READERS)} are")
        message = read(item, where)
        if message["role"] != "assistant":
            _close(made, pending)
            made.append(message)
        elif not _joins(pending, message):
            _close(made, pending)
            pending.update(message)
        else:
            calls = [*pending.get("tool_calls", ()), *message.pop("tool_calls", ())]
            pending.update(message)
            if calls:
                pending["tool_calls"] = calls
    _close(made, pending)
    return made


def _joins(pending: Message, message: Message) -> bool:
    """A text follows reasoning, calls follow a text, but no text follows a text or a call."""
    if "reasoning" in message:
        return not pending
    if "content" in message:
        return "content" not in pending and "tool_calls" not in pending
    return True


def _close(made: list[Message], pending: Message) -> None:
    if pending:
        made.append({"content": None, **pending})
        pending.clear()


def _read_message(item: Item, where: str) -> Message:
    message = read_part(item, MessageItem, where)
    return {"role": message.role, "content": _text(message.content, f"{where}.content")}


def _read_call(item: Item, where: str) -> Message:
    call = read_part(item, CallItem, where)
    function = {"name": call.name, "arguments": call.arguments}
    called = {"id": call.call_id, "type": "function", "function": function}
    return {"role": "assistant", "tool_calls": [called]}


def _read_output(item: Item, where: str) -> Message:
    result = read_part(item, CallOutputItem, where)
    text = _text(result.output, f"{where}.output")
    return {"role": "tool", "tool_call_id": result.call_id, "content": text}


def _read_reasoning(item: Item, where: str) -> Message:
    thought = read_part(item, ReasoningItem, where)
    if thought.content:
        text = _text(thought.content, f"{where}.content")
    elif thought.encrypted_content:
        text = opened(thought.encrypted_content, where)
    else:
        text = _text(thought.summary, f"{where}.summary")
    return {"role": "assistant", "reasoning": text}


_READERS: Mapping[str, Callable[[Item, str], Message]] = MappingProxyType(
    {
        "message": _read_message,
        "function_call": _read_call,
        "function_call_output": _read_output,
        "reasoning": _read_reasoning,
    }
)


def _text(content: str | list[Any], where: str) -> str:
    """Parts of a text are one text, as a model reads them."""
    if isinstance(content, str):
        return content
    return "\n".join(_part_text(part, f"{where}[{n}]") for n, part in enumerate(content))


def _part_text(given: object, where: str) -> str:
    kind = given.get("type") if isinstance(given, dict) else None
    if kind not in (*_TEXT_PARTS, "refusal"):
        raise unsupported_type(kind, where, "only text is")
    assert isinstance(given, dict)
    part = read_part(given, Part, where)
    text = part.refusal if kind == "refusal" else part.text
    if text is None:
        raise InvalidRequest(f"{where} has no text", param=where)
    return text


def sealed(text: str) -> str:
    """Reasoning for clients that keep what they do not read. It is no secret of theirs."""
    return base64.urlsafe_b64encode(text.encode()).decode()


def opened(sealed_text: str, where: str) -> str:
    try:
        return base64.b64decode(sealed_text.encode(), b"-_", validate=True).decode()
    except (ValueError, binascii.Error):
        raise InvalidRequest(
            f"{where}.encrypted_content does not come from this server", param=where
        ) from None
