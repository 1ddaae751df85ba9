"""What the answer of one chat may be made of: calls of which tools, reasoning, text of a form.

From this follow the grammar that holds the model to it, the parser that takes the answer apart, and
the control tokens that the parser has to see. Knows no wire format and no template.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from octavo.core.structured_outputs import StructuredOutputs
from octavo.core.tools import Tool
from octavo.parsing.dialects import ToolDialect, markers_of
from octavo.parsing.parser import OutputParser
from octavo.parsing.registry import Dialects
from octavo.structured.answer_grammar import AnswerRules, ReasoningState
from octavo.structured.lark_text import LarkSpelling
from octavo.structured.task import GrammarTask, respelled
from octavo.tokenization.tokenizer import Tokenizer


class ReasoningTokens(NamedTuple):
    """The ids between which an answer is reasoning."""

    begin: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerForm:
    """`tools` are those that may be called, of which one must be with `must_call`, and only one
    with `is_single`. `is_named`: the client has named it. `is_strict`: arguments obey their schemas
    even where the model is free to call. `outputs` is the form of what is no call."""

    dialects: Dialects
    tools: tuple[Tool, ...] = ()
    must_call: bool = False
    is_single: bool = False
    is_named: bool = False
    is_strict: bool = False
    outputs: StructuredOutputs | None = None

    @property
    def is_plain(self) -> bool:
        """Whether the answer is all text."""
        return self._tool_dialect is None and self.dialects.reasoning is None

    @property
    def is_free(self) -> bool:
        """Whether the model may write what it will."""
        return self.outputs is None and not (self.tools and (self.must_call or self.is_strict))

    def parser(self, state: ReasoningState) -> OutputParser:
        tools = {tool.name: tool.parameters for tool in self.tools}
        return OutputParser(
            self._tool_dialect, self.dialects.reasoning, tools, reasoning_open=state == "open"
        )

    def task(self, state: ReasoningState) -> GrammarTask:
        """What to try before the model may be held to it: with marks as text, for the vocabulary in
        which that is done has none. Raises `InvalidRequest` or `UnsupportedParameter`."""
        return self._rules(state).task(LarkSpelling())

    def grammar(self, tried: str, state: ReasoningState, tokenizer: Tokenizer) -> str:
        """The grammar that holds the model to the form, given what became of the task."""
        spelling = LarkSpelling(tokenizer.markers, tokenizer.controls)
        lark = self._rules(state).task(spelling).lark
        return respelled(tried, lark) if lark else tried

    def _rules(self, state: ReasoningState) -> AnswerRules:
        return AnswerRules(
            dialect=self._tool_dialect,
            tools=self.tools,
            must_call=self.must_call,
            is_single=self.is_single,
            outputs=self.outputs,
            reasoning=self.dialects.reasoning,
            reasoning_state=state,
        )

    def shown_token_ids(self, tokenizer: Tokenizer) -> list[int]:
        """Control tokens that the parser must see, though the client may not want to."""
        parts = (part for marker in self._markers() for part in tokenizer.controls.split(marker))
        return sorted({part for part in parts if isinstance(part, int)})

    def reasoning_tokens(self, tokenizer: Tokenizer) -> ReasoningTokens | None:
        """None where the marks of the reasoning are no tokens, or there is none."""
        reasoning = self.dialects.reasoning
        if reasoning is None or reasoning.marks is None:
            return None
        marks = reasoning.marks
        begins = [list(tokenizer.markers.split(mark)) for mark in marks.opens]
        ends = [list(tokenizer.markers.split(mark)) for mark in marks.closes]
        if len(begins) != 1 or len(ends) != 1:
            return None
        match begins[0], ends[0]:
            case [int(begin)], [int(end)]:
                return ReasoningTokens(begin, end)
        return None

    def reasoning_state(self, tokenizer: Tokenizer, prompt_ids: Sequence[int]) -> ReasoningState:
        """Of a prompt. What stands before its last control token that is no mark is not looked at:
        messages may speak of the marks, and yield no control token."""
        reasoning = self.dialects.reasoning
        if reasoning is None or reasoning.marks is None:
            return "none"
        marks = frozenset(self.shown_token_ids(tokenizer))
        start = len(prompt_ids)
        while start and (
            prompt_ids[start - 1] in marks or not tokenizer.is_special(prompt_ids[start - 1])
        ):
            start -= 1
        tail = tokenizer.decode(prompt_ids[start:], skip_special_tokens=False)
        if reasoning.marks.is_open(tail):
            return "open"
        return "closed" if any(mark in tail for mark in reasoning.marks.closes) else "none"

    @property
    def _tool_dialect(self) -> ToolDialect | None:
        """Harmony's channels are there whether or not there are tools."""
        dialect = self.dialects.tools
        return dialect if dialect and (self.tools or dialect.is_harmony) else None

    def _markers(self) -> Iterable[str]:
        for dialect in (self._tool_dialect, self.dialects.reasoning):
            if dialect is not None:
                yield from markers_of(dialect)
