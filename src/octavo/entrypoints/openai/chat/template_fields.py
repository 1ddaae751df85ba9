"""What requests may hand to a chat template: switches that it asks for, and documents.

Names and types are checked here, on the wire (CVE-2025-62426: a switch must not reach anything but
a variable of the template). Knows no engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from octavo.errors import InvalidRequest, UnsupportedParameter
from octavo.tokenization.chat_template import ChatTemplate

MAX_SWITCHES = 32
MAX_SWITCH_CHARS = 1024
_FIELDS_OF_THEIR_OWN = frozenset(
    {
        *("messages", "tools", "documents", "add_generation_prompt"),
        *("bos_token", "eos_token", "unk_token", "pad_token"),
    }
)
"""Variables that other fields of a request, or the model, give."""

Switches = Mapping[str, object] | None


def checked_switches(given: Switches, template: ChatTemplate | None) -> dict[str, object]:
    """`chat_template_kwargs`: names that the template asks for, with plain values. A switch that it
    does not know may only be off. Raises `InvalidRequest` or `UnsupportedParameter`."""
    switches = dict(given or {})
    if len(switches) > MAX_SWITCHES:
        raise _refused(f"has {len(switches)} entries; at most {MAX_SWITCHES} are allowed")
    known = frozenset() if template is None else template.variables - _FIELDS_OF_THEIR_OWN
    for name, value in list(switches.items()):
        if name not in known:
            if value is not None and value is not False:
                raise _unknown(name, known)
            del switches[name]
        elif not isinstance(value, bool | int | float | str | None):
            raise _refused(
                f"has {name[:64]!r} with a list or an object; text, numbers, true, false and null "
                "are allowed"
            )
        elif isinstance(value, str) and len(value) > MAX_SWITCH_CHARS:
            raise _refused(
                f"has {name[:64]!r} with {len(value)} characters; at most {MAX_SWITCH_CHARS} are "
                "allowed"
            )
    return switches


def checked_documents(
    documents: list[dict[str, Any]] | None, template: ChatTemplate | None
) -> dict[str, object]:
    """As a variable of the template. Raises `UnsupportedParameter` if it does not ask for it."""
    if not documents:
        return {}
    if template is None or "documents" not in template.variables:
        raise UnsupportedParameter(
            "documents is given; the chat template of this model has no place for it",
            param="documents",
            code="unsupported_parameter",
        )
    return {"documents": documents}


def wants_generation_prompt(add_generation_prompt: bool | None, *, is_continued: bool) -> bool:
    """An answer that goes on with the last message needs no new one. Raises `InvalidRequest`."""
    if is_continued and add_generation_prompt:
        raise InvalidRequest(
            "continue_final_message and add_generation_prompt are both true; one is allowed",
            param="continue_final_message",
        )
    return not is_continued if add_generation_prompt is None else add_generation_prompt


def _unknown(name: str, known: frozenset[str]) -> UnsupportedParameter:
    allowed = ", ".join(sorted(known)) or "none"
    return UnsupportedParameter(
        f"chat_template_kwargs has {name[:64]!r}; the chat template of this model asks for: "
        f"{allowed}",
        param="chat_template_kwargs",
        code="unsupported_parameter",
    )


def _refused(what: str) -> InvalidRequest:
    return InvalidRequest(f"chat_template_kwargs {what}", param="chat_template_kwargs")
