"""Reasoning that stands before the answer, between two marks.

Only at the beginning: an answer may speak of the marks. Where the prompt has opened the reasoning
the text begins inside of it. Reasoning that is never closed is reasoning to the end.
"""

from __future__ import annotations

from dataclasses import dataclass

from octavo.parsing.reader import Reader, Steps


@dataclass(frozen=True, slots=True)
class ReasoningMarks:
    """`closes_too` end reasoning as well, and belong to what follows: models go over to a call
    without closing."""

    opens: tuple[str, ...]
    closes: tuple[str, ...]
    closes_too: tuple[str, ...] = ()

    def is_open(self, prompt: str) -> bool:
        """Whether a prompt ends inside of reasoning."""
        opened = max(prompt.rfind(mark) for mark in self.opens)
        return opened >= 0 and opened > max(prompt.rfind(mark) for mark in self.closes)

    def read(self, reader: Reader, is_open: bool) -> Steps[None]:
        """Up to the answer. A second opening mark where the prompt wrote the first is dropped."""
        if (yield from reader.accept(self.opens)) is None and not is_open:
            return
        yield from reader.skip_space()
        ends = self.closes + self.closes_too
        marker = yield from reader.until(ends, reader.emitter.reasoning)
        if marker in self.closes:
            reader.pass_marker(marker)
            yield from reader.skip_space()
