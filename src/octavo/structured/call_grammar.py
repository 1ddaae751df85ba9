"""The rule `calls`: some of the tools, called in the words of a dialect.

The schemas that clients gave have names in it; nothing of theirs is compiled here.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from octavo.core.tools import Tool
from octavo.parsing.call_style import CallStyle
from octavo.structured.argument_rules import ArgumentRules
from octavo.structured.lark_text import LarkSpelling
from octavo.structured.task import SchemaPart

MAX_CALLS: Final = 16
"""Small models that may call once more do so for ever."""


class CallGrammar:
    """Rules and the schemas that are named in them. Raises `UnsupportedParameter` for arguments
    that cannot be guaranteed in this style."""

    def __init__(
        self, style: CallStyle, tools: Sequence[Tool], spelling: LarkSpelling, *, is_single: bool
    ) -> None:
        self._style = style
        self._spelling = spelling
        self.parts: list[SchemaPart] = []
        self.rules: list[str] = []
        word = spelling.word
        more = "" if is_single else f"({word(style.separator)} call){{0,{MAX_CALLS - 1}}}"
        self.rules.append(f"calls: {word(style.begin)} call {more} {word(style.end)}")
        self.rules.append("call: " + " | ".join(f"call_{number}" for number in range(len(tools))))
        for number, tool in enumerate(tools):
            self._add_call(number, tool)

    def _add_call(self, number: int, tool: Tool) -> None:
        word, style = self._spelling.word, self._style
        number_rule = '":" /[0-9]{1,3}/' if style.numbered else ""
        self.rules.append(
            f"call_{number}: {word(style.before + tool.name)} {number_rule} {word(style.middle)}"
            f" {self._arguments(number, tool)} {word(style.after)}"
        )

    def _arguments(self, number: int, tool: Tool) -> str:
        """What stands for a tool's arguments; its rules are added."""
        if self._style.arguments == "json":
            text = json.dumps(tool.parameters)
            self.parts.append(SchemaPart(f"tool_{number}", text, "", tool.place))
            return f"@tool_{number}"
        arguments = ArgumentRules(f"tool_{number}", self._style, tool, self._spelling)
        self.rules += arguments.rules
        self.parts += arguments.parts
        return arguments.name
