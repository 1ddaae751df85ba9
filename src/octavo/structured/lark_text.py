"""Spells the words of a dialect as terminals of the grammar library's Lark.

To that library a control token is no text: it stands in a grammar by its id. Knows no dialect.
"""

from __future__ import annotations

import json
from typing import Final

from octavo.tokenization.spellings import Spellings

TEXT: Final = "/(?s:.*)/"
"""Any text. Contains no control token."""
SPACE: Final = r"/[ \t\r\n]{0,8}/"


def quoted(text: str) -> str:
    """One Lark string."""
    return json.dumps(text, ensure_ascii=False)


class LarkSpelling:
    """`markers` are the spellings that have a token of their own, `controls` those of them that are
    control tokens. Without them everything is text, which is how a grammar is tried."""

    def __init__(self, markers: Spellings | None = None, controls: Spellings | None = None) -> None:
        self._markers = markers or Spellings({})
        self._controls = controls or Spellings({})

    def word(self, text: str) -> str:
        """The terminals of exactly this text; "" for none."""
        return " ".join(map(_terminal, self._markers.split(text)))

    def until(self, name: str, end: str) -> str:
        """A rule `name`: any text, and the first `end` after it."""
        first = next(self._controls.split(end), end)
        if isinstance(first, int):
            return f"{name}: {TEXT} {self.word(end)}"
        return f"{name}[suffix={quoted(end)}]: {TEXT}"


def _terminal(part: str | int) -> str:
    return f"<[{part}]>" if isinstance(part, int) else quoted(part)
