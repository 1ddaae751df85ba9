"""Messages of content blocks, as clients send them, into messages of a chat. Knows no engine.

Results of tools become messages of the tool, in the place where they stand; messages of one role
in a row become one, as Anthropic's API reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal

import msgspec

from octavo.entrypoints.anthropic.request import Block, CacheControl, MessageParam
from octavo.entrypoints.openai.chat.translation import Message, read_part, unsupported_type

ERROR_MARK = "Error: "
"""Before the result of a tool that failed: a chat's message of a tool has no other place for it."""


class TextBlock(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    type: Literal["text"]
    text: str
    cache_control: CacheControl | None = None
    citations: list[Any] | None = None


class ThinkingBlock(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    type: Literal["thinking"]
    thinking: str
    signature: str = ""


class ToolUseBlock(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    type: Literal["tool_use"]
    id: str
    name: str
    input: dict[str, Any]
    cache_control: CacheControl | None = None


class ToolResultBlock(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    type: Literal["tool_result"]
    tool_use_id: str
    content: str | list[Block] = ""
    is_error: bool = False
    cache_control: CacheControl | None = None


def chat_messages(
    system: str | Sequence[Block] | None, messages: Sequence[MessageParam]
) -> list[Message]:
    """Raises `InvalidRequest` or `UnsupportedParameter` naming the block."""
    made: list[Message] = []
    if system is not None:
        made.append({"role": "system", "content": texts_of(system, "system")})
    for index, message in enumerate(messages):
        where = f"messages[{index}].content"
        blocks = message.content
        if isinstance(blocks, str):
            blocks = [{"type": "text", "text": blocks}]
        for number, block in enumerate(blocks):
            _merge(made, _read(message.role, block, f"{where}[{number}]"))
        if not blocks:
            _merge(made, {"role": message.role, "content": ""})
    return made


def texts_of(content: str | Sequence[Block], where: str) -> str:
    """The text of blocks that can only be text."""
    if isinstance(content, str):
        return content
    texts = []
    for number, block in enumerate(content):
        place = f"{where}[{number}]"
        if block.get("type") != "text":
            raise unsupported_type(block.get("type"), place, "only text is")
        texts.append(read_part(block, TextBlock, place).text)
    return "\n".join(texts)


def _read(role: str, block: Block, where: str) -> Message:
    readers = _READERS[role]
    kind = block.get("type")
    reader = readers.get(kind) if isinstance(kind, str) else None
    if reader is None:
        raise unsupported_type(kind, where, f"{', '.join(readers)} are")
    return {"role": role, **reader(block, where)}


def _merge(made: list[Message], message: Message) -> None:
    """Put it behind the others, or into the last one where that is the same message still."""
    last = made[-1] if made else {}
    is_tool = message["role"] == "tool" or message["role"] == "system"
    if is_tool or last.get("role") != message["role"]:
        made.append(message)
        return
    if "content" in message and last.get("content") is not None:
        message = {**message, "content": f"{last['content']}\n{message['content']}"}
    if "reasoning" in message and "reasoning" in last:
        message = {**message, "reasoning": f"{last['reasoning']}\n{message['reasoning']}"}
    if "tool_calls" in message:
        calls = [*last.get("tool_calls", ()), *message["tool_calls"]]
        message = {**message, "tool_calls": calls}
    last.update(message)


def _read_text(block: Block, where: str) -> Message:
    return {"content": read_part(block, TextBlock, where).text}


def _read_thinking(block: Block, where: str) -> Message:
    return {"reasoning": read_part(block, ThinkingBlock, where).thinking}


def _read_use(block: Block, where: str) -> Message:
    use = read_part(block, ToolUseBlock, where)
    arguments = msgspec.json.encode(use.input).decode()
    function = {"name": use.name, "arguments": arguments}
    return {"tool_calls": [{"id": use.id, "type": "function", "function": function}]}


def _read_result(block: Block, where: str) -> Message:
    result = read_part(block, ToolResultBlock, where)
    text = texts_of(result.content, f"{where}.content")
    content = f"{ERROR_MARK}{text}" if result.is_error else text
    return {"role": "tool", "tool_call_id": result.tool_use_id, "content": content}


Reader = Callable[[Block, str], Message]
_READERS: Mapping[str, Mapping[str, Reader]] = MappingProxyType(
    {
        "user": {"text": _read_text, "tool_result": _read_result},
        "assistant": {"text": _read_text, "tool_use": _read_use, "thinking": _read_thinking},
        "system": {"text": _read_text},
    }
)
