"""Calls written as Python calls with literal keyword arguments, translated to JSON as they come.

Nothing is evaluated. A call that breaks off keeps the translation up to there; what follows the
break is content.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from octavo.parsing.json_text import json_body
from octavo.parsing.reader import Give, Mismatch, Reader, Steps

MAX_DEPTH = 32
MAX_WORD_CHARS = 512

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]*")
_NAME_TEXT = re.compile(r"[A-Za-z0-9_.\-]*")
_NUMBER = re.compile(r"[+-]?(?:[0-9][0-9_]*\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_JSON_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_WORD_TEXT = re.compile(r"[A-Za-z0-9_.+\-]*")
_WORDS = {
    "True": "true", "False": "false", "None": "null",
    "true": "true", "false": "false", "null": "null",
}  # fmt: skip
_ESCAPES = {
    "n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v",
    "\\": "\\", "'": "'", '"': '"', "\n": "", "0": "\0",
}  # fmt: skip
_HEX_CHARS = {"x": 2, "u": 4, "U": 8}


@dataclass(frozen=True, slots=True)
class PythonCalls:
    """`[f(a=1), g()]` or calls one after the other; `closers` may end the form. `print(f())`, as
    models write it where they think of code that runs, is `f()`."""

    closers: tuple[str, ...] = ()

    def read(self, reader: Reader, opener: str) -> Steps[None]:
        in_list = opener == "[" or (yield from reader.accept(("[",))) is not None
        yield from _read_call(reader)
        while (yield from self._begins_another(reader, in_list)):
            yield from _read_call(reader)
        if in_list:
            yield from reader.accept(("]",))
        if self.closers:
            yield from reader.accept(self.closers)

    def _begins_another(self, reader: Reader, in_list: bool) -> Steps[bool]:
        """Whether one more call may stand here; if so, past what separates it from the last."""
        has_comma = (yield from reader.looking_at((",", ";"))) is not None
        if in_list and not has_comma:
            return False
        if not in_list and (yield from self._is_over(reader)):
            return False
        reader.begin_call()
        if has_comma:
            yield from reader.accept((",", ";"))
        return True

    def _is_over(self, reader: Reader) -> Steps[bool]:
        if not self.closers or (yield from reader.looking_at(self.closers)) is not None:
            return True
        return not (yield from reader.lookahead(1))


def _read_call(reader: Reader) -> Steps[None]:
    is_printed = (yield from reader.accept(("print(",))) is not None
    yield from reader.skip_space()
    name = yield from _read_name(reader)
    yield from reader.expect("(")
    reader.start(name)
    try:
        yield from _pass_keywords(reader, reader.arguments)
    except Mismatch:
        reader.end(complete=False)
        raise
    reader.end(complete=True)
    if is_printed:
        yield from reader.accept((")",))


def _pass_keywords(reader: Reader, give: Give) -> Steps[None]:
    """`a=1, b="x")` as `{"a": 1, "b": "x"}`."""
    separator = "{"
    while (yield from reader.accept((")",))) is None:
        yield from reader.skip_space()
        key = yield from _read_name(reader)
        yield from reader.expect("=")
        give(f'{separator}"{key}": ')
        yield from _pass_value(reader, give, 0)
        separator = ", "
        if (yield from reader.accept((",",))) is None:
            yield from reader.expect(")")
            break
    give("{}" if separator == "{" else "}")


def _read_name(reader: Reader) -> Steps[str]:
    name = yield from _read_word(reader, _NAME_TEXT)
    if not _NAME.fullmatch(name):
        raise Mismatch
    return name


def _read_word(reader: Reader, pattern: re.Pattern[str]) -> Steps[str]:
    """The longest text of this kind; held until it is whole."""
    while True:
        word = pattern.match(reader.text, reader.at)
        assert word is not None
        if len(word[0]) > MAX_WORD_CHARS:
            raise Mismatch
        if word.end() < len(reader.text) or reader.ended:
            break
        yield
    reader.skip(len(word[0]))
    return word[0]


def _pass_value(reader: Reader, give: Give, depth: int) -> Steps[None]:
    if depth > MAX_DEPTH:
        raise Mismatch
    yield from reader.skip_space()
    character = yield from reader.peek()
    if character in ("'", '"'):
        yield from _pass_string(reader, give)
    elif character in ("[", "("):
        yield from _pass_list(reader, give, depth)
    elif character == "{":
        yield from _pass_dict(reader, give, depth)
    else:
        give(_scalar_json((yield from _read_word(reader, _WORD_TEXT))))


def _pass_list(reader: Reader, give: Give, depth: int) -> Steps[None]:
    """A list or a tuple; parentheses around one value are only parentheses in Python, and a list
    here: what a model means by them is a list."""
    closer = "]" if reader.text[reader.at] == "[" else ")"
    reader.skip(1)
    give("[")
    separator = ""
    while (yield from reader.accept((closer,))) is None:
        give(separator)
        yield from _pass_value(reader, give, depth + 1)
        separator = ", "
        if (yield from reader.accept((",",))) is None:
            yield from reader.expect(closer)
            break
    give("]")


def _pass_dict(reader: Reader, give: Give, depth: int) -> Steps[None]:
    reader.skip(1)
    give("{")
    separator = ""
    while (yield from reader.accept(("}",))) is None:
        give(separator)
        yield from _pass_key(reader, give)
        yield from reader.expect(":")
        give(": ")
        yield from _pass_value(reader, give, depth + 1)
        separator = ", "
        if (yield from reader.accept((",",))) is None:
            yield from reader.expect("}")
            break
    give("}")


def _pass_key(reader: Reader, give: Give) -> Steps[None]:
    """JSON's keys are strings."""
    yield from reader.skip_space()
    if (yield from reader.peek()) in ("'", '"'):
        yield from _pass_string(reader, give)
    else:
        give(f'"{_scalar_json((yield from _read_word(reader, _WORD_TEXT)))}"')


def _pass_string(reader: Reader, give: Give) -> Steps[None]:
    quote = yield from reader.lookahead(1)
    triple = yield from reader.lookahead(3)
    if triple == quote * 3:
        quote = triple
    reader.skip(len(quote))
    give('"')

    def give_body(text: str) -> None:
        give(json_body(text))

    while (marker := (yield from reader.until((quote, "\\"), give_body, trim=False))) != quote:
        if marker is None:
            raise Mismatch
        give_body((yield from _read_escape(reader)))
    reader.skip(len(quote))
    give('"')


def _read_escape(reader: Reader) -> Steps[str]:
    """What an escape means; a backslash that escapes nothing is a backslash."""
    escape = yield from reader.lookahead(2)
    if len(escape) < 2:
        raise Mismatch
    num_digits = _HEX_CHARS.get(escape[1], 0)
    if not num_digits:
        meant = _ESCAPES.get(escape[1])
        reader.skip(1 if meant is None else 2)
        return "\\" if meant is None else meant
    digits = (yield from reader.lookahead(2 + num_digits))[2:]
    if not re.fullmatch(f"[0-9a-fA-F]{{{num_digits}}}", digits):
        reader.skip(1)
        return "\\"
    reader.skip(2 + num_digits)
    code = int(digits, 16)
    return chr(code) if code < 0xD800 or 0xE000 <= code <= 0x10FFFF else "\ufffd"


def _scalar_json(word: str) -> str:
    if known := _WORDS.get(word):
        return known
    if _JSON_NUMBER.fullmatch(word):
        return word
    if not _NUMBER.fullmatch(word):
        raise Mismatch
    plain = word.replace("_", "").lstrip("+")
    if plain.lstrip("-").isdigit():
        return str(int(plain))
    value = float(plain)
    if math.isinf(value):
        raise Mismatch
    return repr(value)
