"""From chat messages to token ids, such that only the template can produce control ids (rule R7).

Every spelling of a control token inside the messages is broken by a private character before the
template runs; the rendered text is cut at the spellings that are left, which are the template's
own; then the private characters are taken out and the plain parts encoded as plain text. Messages
without such spellings pass unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

from octavo.errors import TemplateError
from octavo.tokenization.chat_template import ChatTemplate
from octavo.tokenization.messages import Message, map_texts
from octavo.tokenization.spellings import Spellings
from octavo.tokenization.tokenizer import Tokenizer


def encode_chat(
    tokenizer: Tokenizer,
    template: ChatTemplate,
    messages: Sequence[Message],
    *,
    add_generation_prompt: bool = True,
    continue_final_message: bool = False,
    add_special_tokens: bool = True,
    kwargs: Mapping[str, object] | None = None,
) -> list[int]:
    """Token ids of the rendered conversation. With `add_special_tokens` exactly one BOS if the
    model wants one, else what the template says alone. With `continue_final_message` it ends where
    the text of the last message ends, so that the answer goes on with it.

    Raises `TemplateError` as `ChatTemplate.render` does, and for a last message that has no text or
    that the template does not show.
    """
    extra = dict(kwargs or {})
    separator, mark = _private_characters([*messages, extra, template.source])
    shielded = [_shield(message, tokenizer, separator) for message in messages]
    if continue_final_message:
        shielded[-1]["content"] = _marked(shielded[-1].get("content"), mark)
    rendered = template.render(
        shielded,
        add_generation_prompt=add_generation_prompt,
        **_broken(extra, tokenizer.markers, separator),
    )
    if continue_final_message:
        rendered = _cut(rendered, mark)
    parts = tokenizer.markers.split(rendered)
    ids = tokenizer.encode_parts(
        part.replace(separator, "") if isinstance(part, str) else part for part in parts
    )
    bos = tokenizer.bos_token_id
    wants_bos = add_special_tokens and tokenizer.adds_bos and bos is not None
    if wants_bos and bos is not None and ids[:1] != [bos]:
        ids.insert(0, bos)
    return ids


def _marked(content: object, mark: str) -> object:
    """The content of a message with `mark` at the end of its text."""
    if isinstance(content, str) and content:
        return content + mark
    if isinstance(content, list) and content and isinstance(content[-1], Mapping):
        text = content[-1].get("text")
        if isinstance(text, str) and text:
            return [*content[:-1], {**content[-1], "text": text + mark}]
    raise TemplateError(
        "the last message has no text; continue_final_message needs one", param="messages"
    )


def _cut(rendered: str, mark: str) -> str:
    """What stands before the last mark."""
    before, found, _ = rendered.rpartition(mark)
    if not found:
        raise TemplateError(
            "the chat template does not show the last message; it cannot be continued",
            param="continue_final_message",
        )
    return before.replace(mark, "")


def _shield(message: Message, tokenizer: Tokenizer, separator: str) -> dict[str, object]:
    """An assistant's message may spell user-defined markers (</think>, <tool_call>), as the model
    itself does and as templates look for; the others may spell no marker at all."""
    is_answer = isinstance(message, Mapping) and message.get("role") == "assistant"
    spellings = tokenizer.controls if is_answer else tokenizer.markers
    return _broken(message, spellings, separator)


def _broken(value: Mapping[str, object], spellings: Spellings, separator: str) -> dict[str, object]:
    if not isinstance(value, Mapping):
        raise TemplateError("each message must be an object", param="messages")
    broken = map_texts(value, lambda text: spellings.break_in(text, separator))
    assert isinstance(broken, dict)
    return broken


def _private_characters(values: Sequence[object]) -> tuple[str, str]:
    """Two characters that occur nowhere in `values`: noncharacters, or ones for private use."""
    used: set[str] = set()

    def note(text: str) -> str:
        used.update(text)
        return text

    map_texts(values, note)
    codes = chain(range(0xFDD0, 0xFDF0), range(0xF0000, 0xFFFFE))
    free = (chr(code) for code in codes if chr(code) not in used)
    first, second = next(free, ""), next(free, "")
    if not second:
        raise TemplateError("the messages use every private character of Unicode", param="messages")
    return first, second
