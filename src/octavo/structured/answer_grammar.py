"""The grammar of a whole answer: reasoning, then calls, or text of a form, or both by choice.

Lark text of ours around what clients gave. Knows dialects, but no request and no engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from octavo.core.structured_outputs import StructuredOutputs
from octavo.core.tools import Tool
from octavo.parsing.call_style import CallStyle
from octavo.parsing.dialects import ReasoningDialect, ToolDialect
from octavo.structured.call_grammar import CallGrammar
from octavo.structured.lark_text import SPACE, TEXT, LarkSpelling
from octavo.structured.task import CONTENT, GrammarTask

ReasoningState = Literal["none", "open", "closed"]
"""Whether a prompt ends inside of reasoning, or after one, or without any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRules:
    """`dialect` is given if there are `tools`. With `must_call` the answer is calls and nothing
    else; without, it is text of the form `outputs` or calls; if there is no such form, text with
    calls in it."""

    dialect: ToolDialect | None = None
    tools: Sequence[Tool] = ()
    must_call: bool = False
    is_single: bool = False
    outputs: StructuredOutputs | None = None
    reasoning: ReasoningDialect | None = None
    reasoning_state: ReasoningState = "none"

    def task(self, spelling: LarkSpelling) -> GrammarTask:
        """Raises `UnsupportedParameter` for tools that cannot be held to their schemas."""
        if not self.tools and self._thinking(spelling) is None:
            return GrammarTask(self.outputs)
        body, calls = self._body(spelling)
        start, *thinking = self._thinking(spelling) or ["start: body"]
        lines = [start, *thinking, body, *(calls.rules if calls else ())]
        outputs = None if self.must_call else self.outputs
        return GrammarTask(outputs, "\n".join(lines), tuple(calls.parts if calls else ()))

    def _body(self, spelling: LarkSpelling) -> tuple[str, CallGrammar | None]:
        """The rule of what comes after the reasoning, and the calls that it speaks of."""
        content = f"{self._final(spelling)} @{CONTENT}"
        if self.dialect is None or not self.tools:
            return f"body: {content}", None
        style = self.dialect.style
        if self.must_call:
            return "body: calls", self._calls(style, spelling)
        if self.outputs is not None:
            return f"body: calls | {content}", self._calls(style, spelling)
        if self.dialect.is_harmony:
            text = f"body: calls | {self._final(spelling)} {TEXT}"
            return text, self._calls(style, spelling)
        return self._free(self.dialect, spelling)

    def _free(self, dialect: ToolDialect, spelling: LarkSpelling) -> tuple[str, CallGrammar]:
        """Text in which the marker of a call is followed by a call."""
        form = dialect.forms[0] if not dialect.forms[0].only_first else dialect.forms[-1]
        style, opener = dialect.style, form.opener
        if form.only_first:
            other = rf"/(?s:[ \t\r\n]*([^ \t\r\n\{opener}].*)?)/"
            return f"body: calls | {other}", self._calls(style, spelling)
        is_single = self.is_single
        if style.begin:
            style = replace(style, begin=style.begin.removeprefix(opener))
        else:
            style, is_single = replace(style, before=style.before.removeprefix(opener)), True
        calls = self._calls(style, spelling, is_single=is_single)
        calls.rules += [spelling.until("opened", opener)]
        return f"body: (opened calls)* {TEXT}", calls

    def _calls(
        self, style: CallStyle, spelling: LarkSpelling, *, is_single: bool | None = None
    ) -> CallGrammar:
        is_single = self.is_single if is_single is None else is_single
        return CallGrammar(style, self.tools, spelling, is_single=is_single)

    def _final(self, spelling: LarkSpelling) -> str:
        """What stands before the answer itself."""
        is_harmony = self.reasoning is not None and self.reasoning.is_harmony
        return spelling.word("<|channel|>final<|message|>") if is_harmony else ""

    def _thinking(self, spelling: LarkSpelling) -> list[str] | None:
        """The rule `start`, and what it needs to let the model think first; None if it may not."""
        if self.reasoning is None or self.reasoning_state == "closed":
            return None
        marks = self.reasoning.marks
        if marks is None:
            end = spelling.until("thoughts", "<|end|>")
            opens = spelling.word("<|channel|>analysis<|message|>")
            goes_on = spelling.word("<|start|>assistant")
            return ["start: thinking? body", f"thinking: {opens} thoughts {goes_on}", end]
        names = [f"thoughts_{number}" for number in range(len(marks.closes))]
        ends = [spelling.until(*one) for one in zip(names, marks.closes, strict=True)]
        thoughts = f"thoughts: ({' | '.join(names)}) {SPACE}"
        if self.reasoning_state == "open":
            return ["start: thoughts body", thoughts, *ends]
        opens = " | ".join(map(spelling.word, marks.opens))
        return [f"start: (({opens}) thoughts)? body", thoughts, *ends]
