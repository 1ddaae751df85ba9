"""Turns the text of one answer into events while it comes.

The sum of the events is the same however the text was cut. Nothing that a model writes is an
error: what is no call is content, character for character, and a call that breaks keeps what came
before the break (`docs/tool_calls.md` says what each kind of mistake gives).

The text must hold the model's markers: it is decoded without leaving out special tokens, and
without the token that ended it.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping

from octavo.parsing.dialects import Form, ReasoningDialect, ToolDialect
from octavo.parsing.emitter import Emitter, Schema
from octavo.parsing.events import Event
from octavo.parsing.harmony import read_harmony
from octavo.parsing.reader import Mismatch, Reader, Steps


def random_call_id() -> str:
    return f"call_{secrets.token_hex(12)}"


class OutputParser:
    """For one answer. `tools` maps the names that the client offered to their parameters' schemas;
    a call of any other name is content. `reasoning_open`: the prompt ends inside of reasoning
    (`ReasoningMarks.is_open`). `new_id` names the calls of dialects that do not name them.
    """

    def __init__(
        self,
        tool_dialect: ToolDialect | None,
        reasoning_dialect: ReasoningDialect | None,
        tools: Mapping[str, Schema],
        *,
        reasoning_open: bool = False,
        new_id: Callable[[], str] = random_call_id,
    ) -> None:
        self._reader = Reader(Emitter(tools if tool_dialect else {}, new_id))
        self._steps = _read_answer(self._reader, tool_dialect, reasoning_dialect, reasoning_open)

    def feed(self, text: str) -> list[Event]:
        """What more text decides. Not to be called after `finish`."""
        self._reader.push(text)
        return self._advance()

    def finish(self) -> list[Event]:
        """What the end of the text decides."""
        self._reader.push("")
        self._reader.ended = True
        return self._advance()

    def _advance(self) -> list[Event]:
        next(self._steps, None)
        return self._reader.emitter.drain()


def _read_answer(
    reader: Reader,
    tools: ToolDialect | None,
    reasoning: ReasoningDialect | None,
    reasoning_open: bool,
) -> Steps[None]:
    if (tools and tools.is_harmony) or (reasoning and reasoning.marks is None):
        yield from read_harmony(reader)
        return
    if reasoning and reasoning.marks:
        yield from reasoning.marks.read(reader, reasoning_open)
    yield from _read_forms(reader, tools.forms if tools else ())


def _read_forms(reader: Reader, forms: tuple[Form, ...]) -> Steps[None]:
    """Content and calls to the end of the text."""
    first = {form.opener: form for form in forms}
    later = {form.opener: form for form in forms if not form.only_first}
    opener = (yield from reader.looking_at(tuple(first))) if first else None
    while True:
        if opener is None:
            opener = yield from reader.until(tuple(later), reader.emitter.content)
        if opener is None:
            return
        yield from _read_form(reader, first[opener])
        opener = None


def _read_form(reader: Reader, form: Form) -> Steps[None]:
    reader.open_form(form.opener)
    try:
        yield from form.calls.read(reader, form.opener)
    except Mismatch:
        reader.refute()
    else:
        yield from reader.close_form()
