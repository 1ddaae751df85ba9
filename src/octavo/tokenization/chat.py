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
    kwargs: Mapping[str, object] | None = None,
) -> list[int]:
    """Token ids of the rendered conversation, with exactly one BOS if the model wants one.

    Raises `TemplateError` as `ChatTemplate.render` does.
    """
    extra = dict(kwargs or {})
    separator = _private_character([*messages, extra, template.source])
    shielded = [_shield(message, tokenizer, separator) for message in messages]
    rendered = template.render(
        shielded,
        add_generation_prompt=add_generation_prompt,
        **_broken(extra, tokenizer.markers, separator),
    )
    parts = tokenizer.markers.split(rendered)
    ids = tokenizer.encode_parts(
        part.replace(separator, "") if isinstance(part, str) else part for part in parts
    )
    bos = tokenizer.bos_token_id
    if tokenizer.adds_bos and bos is not None and ids[:1] != [bos]:
        ids.insert(0, bos)
    return ids


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


def _private_character(values: Sequence[object]) -> str:
    """A character that occurs nowhere in `values`: a noncharacter, or one for private use."""
    used: set[str] = set()

    def note(text: str) -> str:
        used.update(text)
        return text

    map_texts(values, note)
    for code in chain(range(0xFDD0, 0xFDF0), range(0xF0000, 0xFFFFE)):
        if chr(code) not in used:
            return chr(code)
    raise TemplateError("the messages use every private character of Unicode", param="messages")
