"""The text of one answer as it comes: what is decided is passed on, what is not is held back.

Dialects are generators over a `Reader`. A bare `yield` asks for more text. No position in the text
may be kept over a `yield` other than in the reader itself, because held text moves. A dialect acts
on a piece of text only when no text to come could change its mind; so the sum of the events does
not depend on how the text was cut. Knows markers and attempts at calls, but no dialect.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Sequence
from functools import lru_cache
from typing import TypeVar

from octavo.parsing.emitter import Emitter

T = TypeVar("T")
Steps = Generator[None, None, T]
Give = Callable[[str], None]

WHITESPACE = " \t\r\n"
MAX_SPACE_CHARS = 64
"""Whitespace beside a marker belongs to the marker, up to this many characters."""
MAX_ATTEMPT_CHARS = 8192
"""So much text may be held back because it may become a call; beyond that it is content."""

MAX_HEAD_CHARS = 256
"""No name or header is longer. It keeps the cost of text full of openers linear."""


class Mismatch(Exception):
    """The text is not what the dialect expects here. Never leaves a parser."""


class Reader:
    """An **attempt** is text that looks like a call but may turn out to be content. It begins with
    `open_form` or `begin_call` and is over with `start` (a call) or `refute` (content).

    A call of an unknown tool is **raw**: its text is content, as it was written, up to the next
    call or the end of the form.
    """

    def __init__(self, emitter: Emitter) -> None:
        self.emitter = emitter
        self.text = ""
        self.at = 0
        self.ended = False
        self._attempt: int | None = None
        self._opener_chars = 0
        self._raw: int | None = None
        self._is_muted = False

    def push(self, text: str) -> None:
        """Take more text, and drop what is done with."""
        self._flush_raw()
        start = self.at if self._attempt is None else self._attempt
        self.text = self.text[start:] + text
        self.at -= start
        self._attempt = None if self._attempt is None else 0
        self._raw = None if self._raw is None else self.at

    # Looking and moving.

    def skip(self, num_chars: int) -> None:
        self.at += num_chars
        if self._attempt is not None and self.at - self._attempt > MAX_ATTEMPT_CHARS:
            raise Mismatch

    def lookahead(self, num_chars: int) -> Steps[str]:
        """The next characters; fewer only at the end of the text."""
        while len(self.text) - self.at < num_chars and not self.ended:
            yield
        return self.text[self.at : self.at + num_chars]

    def peek(self) -> Steps[str]:
        """The next character, or "" at the end."""
        while self.at == len(self.text):
            if self.ended:
                return ""
            yield
        return self.text[self.at]

    def looking_at(self, literals: Sequence[str], junk: str = WHITESPACE) -> Steps[str | None]:
        """The literal that stands here, maybe after junk. No literal may begin with junk or be the
        beginning of another."""
        while True:
            end = self.at
            while end < len(self.text) and self.text[end] in junk:
                end += 1
                if end - self.at > MAX_SPACE_CHARS:
                    return None
            for literal in literals:
                if self.text.startswith(literal, end):
                    return literal
            if self.ended or not _may_begin(literals, self.text, end):
                return None
            yield

    def reach(self, literals: Sequence[str], junk: str = WHITESPACE) -> Steps[str | None]:
        """Move over junk to the literal after it; if there is none, stay and return None."""
        literal = yield from self.looking_at(literals, junk)
        if literal is not None:
            self.skip(self.text.index(literal, self.at) - self.at)
        return literal

    def accept(self, literals: Sequence[str], junk: str = WHITESPACE) -> Steps[str | None]:
        """Like `reach`, and past the literal."""
        literal = yield from self.reach(literals, junk)
        self.skip(len(literal or ""))
        return literal

    def expect(self, literal: str, junk: str = WHITESPACE) -> Steps[None]:
        if (yield from self.accept((literal,), junk)) is None:
            raise Mismatch

    def skip_space(self) -> Steps[None]:
        while (yield from self.peek()) and self.text[self.at] in WHITESPACE:
            self.skip(1)

    def until(self, markers: Sequence[str], give: Give, *, trim: bool = True) -> Steps[str | None]:
        """Give the text up to the first marker and return that, not passed yet; None at the end.
        With `trim`, whitespace before the marker is not given, and stands before it still."""
        while True:
            end, marker = _search(tuple(markers), self.text, self.at, self.ended)
            if trim and not (self.ended and marker is None):
                end = self._before_space(end)
            given = self.text[self.at : end]
            self.skip(len(given))
            give(given)
            if marker is not None or self.ended:
                return marker
            yield

    def pass_marker(self, marker: str) -> None:
        """Past a marker that `until` or `looking_at` returned."""
        self.skip(self.text.index(marker, self.at) + len(marker) - self.at)

    def read_until(self, markers: Sequence[str]) -> Steps[tuple[str, str]]:
        """A short text up to the first marker, and that marker, not passed yet."""
        while True:
            end, marker = _search(tuple(markers), self.text, self.at, self.ended, MAX_HEAD_CHARS)
            if marker is not None:
                head = self.text[self.at : end].rstrip(WHITESPACE)
                self.skip(end - self.at)
                return head, marker
            if self.ended or end - self.at > MAX_HEAD_CHARS:
                raise Mismatch
            yield

    def _before_space(self, end: int) -> int:
        lowest = max(self.at, end - MAX_SPACE_CHARS)
        while end > lowest and self.text[end - 1] in WHITESPACE:
            end -= 1
        return end

    # Attempts and calls.

    def open_form(self, marker: str) -> None:
        """An attempt at a marker that `until` or `looking_at` returned."""
        self._attempt = self.at
        self.pass_marker(marker)
        self._opener_chars = self.at - self._attempt

    def begin_call(self) -> None:
        """An attempt at one more call in the same form."""
        self._flush_raw()
        self._raw = None
        self._attempt = self.at
        self._opener_chars = 0

    def start(self, name: str, call_id: str | None = None) -> None:
        """The attempt is a call: of a known tool, or raw."""
        begin, self._attempt = self._attempt, None
        self._is_muted = name not in self.emitter.tools
        if self._is_muted:
            self._raw = self.at if begin is None else begin
        else:
            self.emitter.start(name, call_id)

    def drop_attempt(self) -> None:
        """The attempt was no call, but its marker no content either."""
        self._attempt = None

    def arguments(self, text: str) -> None:
        if not self._is_muted:
            self.emitter.arguments(text)

    def end(self, complete: bool) -> None:
        if not self._is_muted:
            self.emitter.end(complete)

    def copy_arguments(
        self, steps: Callable[[Reader, Give], Steps[None]], ends: Sequence[str]
    ) -> Steps[None]:
        """The arguments of the call that has started, and its end. If they are malformed or cut
        off, they are what the model wrote, up to one of `ends`."""
        complete = True
        try:
            yield from steps(self, self.arguments)
        except Mismatch:
            yield from self.until(ends, self.arguments)
            complete = False
        self.end(complete)

    def refute(self) -> None:
        """A mismatch: what is held of the attempt is content after all."""
        self._flush_raw()
        self._raw = None
        if self._attempt is not None:
            self.at = self._attempt + self._opener_chars
            self.emitter.content(self.text[self._attempt : self.at])
            self._attempt = None

    def close_form(self) -> Steps[None]:
        """The form is over."""
        if self._raw is None:
            yield from self.skip_space()
        self._flush_raw()
        self._raw = None

    def _flush_raw(self) -> None:
        if self._raw is not None:
            self.emitter.content(self.text[self._raw : self.at])
            self._raw = self.at


def _may_begin(literals: Sequence[str], text: str, at: int) -> bool:
    """Whether the text ends in the beginning of a literal (or with nothing) that starts here."""
    rest = len(text) - at
    return any(rest < len(word) and text.startswith(word[:rest], at) for word in literals)


@lru_cache(maxsize=256)
def _first_characters(markers: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("[" + "".join(re.escape(marker[0]) for marker in markers) + "]")


def _search(
    markers: tuple[str, ...], text: str, at: int, ended: bool, max_chars: int | None = None
) -> tuple[int, str | None]:
    """Where the first marker starts, and which; or where the first may still start, and None.
    With `max_chars` only so much text may stand before it."""
    limit = len(text) if max_chars is None else min(len(text), at + max_chars + 1)
    if not markers:
        return limit, None
    for found in _first_characters(markers).finditer(text, at, limit):
        start = found.start()
        for marker in markers:
            if text.startswith(marker, start):
                return start, marker
        if not ended and _may_begin(markers, text, start):
            return start, None
    return limit, None
