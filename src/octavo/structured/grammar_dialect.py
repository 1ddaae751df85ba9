"""A client's grammar as Lark text: which of two languages it is in, and what may not be in it."""

from __future__ import annotations

import re
from typing import Final

from llguidance.gbnf_to_lark import gbnf_to_lark

_NO_CODE: Final = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|#[^\n]*|/(?:\\.|[^/\\\n])+/', re.DOTALL)
"""Strings, comments and regular expressions of Lark."""
_UNICODE_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|.)", re.DOTALL)
_REFUSED: Final = (
    (re.compile(r"%json\b"), "%json is not supported; use json or structural_tag"),
    (re.compile(r"%llguidance(?!\s*\{\s*\})"), "options after %llguidance are not supported"),
    (re.compile(r"<\["), "ids of tokens are not supported; write their text"),
    (re.compile(r"[\[,]\s*temperature\s*="), "temperature is a field of the request"),
)


def lark_text(grammar: str) -> str:
    """Lark stays, GBNF is translated. Raises ValueError for what is not supported, or is neither as
    far as one sees without compiling it."""
    code = _NO_CODE.sub(" ", grammar)
    if "::=" in code or not code.strip():
        return _translated(_UNICODE_ESCAPE.sub(_character, grammar))
    for pattern, reason in _REFUSED:
        if pattern.search(code):
            raise ValueError(reason)
    return grammar


def _translated(gbnf: str) -> str:
    try:
        return str(gbnf_to_lark(gbnf))
    except RecursionError:
        raise ValueError("its rules are nested too deeply") from None
    except Exception as error:  # the library's own
        raise ValueError(str(error)) from None


def _character(escape: re.Match[str]) -> str:
    r"""A character for `\u....`, which the translation writes wrongly; other escapes stay."""
    digits = escape[1] or escape[2]
    if digits is None:
        return escape[0]
    code = int(digits, 16)
    if code > 0x10FFFF or 0xD800 <= code < 0xE000:
        raise ValueError(f"{escape[0]} is no character")
    return f"\\x{code:02x}" if code < 128 else chr(code)
