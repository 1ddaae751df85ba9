"""Gemma's own notation: `call:name{key:value,...}` with strings between marks of their own.

Translated to JSON as it comes. A call that breaks off keeps the translation up to there; what
follows the break is content.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from octavo.parsing.json_text import json_body
from octavo.parsing.reader import Give, Mismatch, Reader, Steps

MAX_DEPTH = 32

_SCALAR = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null")


@dataclass(frozen=True, slots=True)
class BracedCalls:
    """`quote` stands before and after a string. What is neither quoted nor a number or a word of
    JSON is a string too."""

    quote: str
    closer: str

    def read(self, reader: Reader, _opener: str) -> Steps[None]:
        yield from reader.expect("call:")
        name, _ = yield from reader.read_until(("{",))
        reader.pass_marker("{")
        reader.start(name.strip())
        try:
            yield from self._pass_object(reader, reader.arguments, 0)
        except Mismatch:
            reader.end(complete=False)
            raise
        reader.end(complete=True)
        yield from reader.accept((self.closer,))

    def _pass_object(self, reader: Reader, give: Give, depth: int) -> Steps[None]:
        """After the brace."""
        give("{")
        separator = ""
        while (yield from reader.accept(("}",))) is None:
            give(separator)
            yield from self._pass_key(reader, give)
            yield from self._pass_value(reader, give, depth + 1)
            separator = ", "
            if (yield from reader.accept((",",))) is None:
                yield from reader.expect("}")
                break
        give("}")

    def _pass_key(self, reader: Reader, give: Give) -> Steps[None]:
        if (yield from reader.reach((self.quote,))) is not None:
            yield from self._pass_string(reader, give)
            yield from reader.expect(":")
        else:
            yield from reader.skip_space()
            key, marker = yield from reader.read_until((":", "}", ",", self.closer))
            if marker != ":":
                raise Mismatch
            reader.pass_marker(":")
            give(f'"{json_body(key)}"')
        give(": ")

    def _pass_value(self, reader: Reader, give: Give, depth: int) -> Steps[None]:
        if depth > MAX_DEPTH:
            raise Mismatch
        begin = yield from reader.reach((self.quote, "{", "["))
        if begin == self.quote:
            yield from self._pass_string(reader, give)
        elif begin == "{":
            reader.skip(1)
            yield from self._pass_object(reader, give, depth)
        elif begin == "[":
            reader.skip(1)
            yield from self._pass_list(reader, give, depth)
        else:
            yield from reader.skip_space()
            word, _ = yield from reader.read_until((",", "}", "]"))
            give(word if _SCALAR.fullmatch(word) else f'"{json_body(word)}"')

    def _pass_list(self, reader: Reader, give: Give, depth: int) -> Steps[None]:
        give("[")
        separator = ""
        while (yield from reader.accept(("]",))) is None:
            give(separator)
            yield from self._pass_value(reader, give, depth + 1)
            separator = ", "
            if (yield from reader.accept((",",))) is None:
                yield from reader.expect("]")
                break
        give("]")

    def _pass_string(self, reader: Reader, give: Give) -> Steps[None]:
        reader.skip(len(self.quote))
        give('"')
        end = yield from reader.until((self.quote,), lambda text: give(json_body(text)), trim=False)
        if end is None:
            raise Mismatch
        reader.pass_marker(end)
        give('"')
