"""JSON as it comes: values passed on as they were written, strings decoded. RFC 8259.

Iterative: depth costs no stack. Two mistakes that models make are mended inside strings, so that
the result parses: raw control characters are escaped, and a backslash that escapes nothing is
doubled. Everything else that is not JSON is a `Mismatch`, at the place where it stands.
"""

from __future__ import annotations

import json
import re

from octavo.parsing.reader import WHITESPACE, Give, Mismatch, Reader, Steps

MAX_NUMBER_CHARS = 512

_PLAIN = re.compile(r'[^"\\\x00-\x1f]+')
_SPACE = re.compile(f"[{WHITESPACE}]+")
_WORD = re.compile(r"[A-Za-z0-9+.\-]*")
_SCALAR = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null")
_UNICODE = re.compile(r"\\u[0-9a-fA-F]{4}")
_PAIR = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_ESCAPES = {
    '"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t",
}  # fmt: skip


def json_body(text: str) -> str:
    """The text as the inside of a JSON string. A concatenation's is the concatenation's."""
    return json.dumps(text, ensure_ascii=False)[1:-1]


def pass_json(reader: Reader, give: Give) -> Steps[None]:
    """Pass one value on, and whitespace before it."""
    closers: list[str] = []
    while True:
        yield from _pass_space(reader, give)
        character = yield from reader.peek()
        if character in ("{", "["):
            _pass(reader, give, 1)
            closers.append("}" if character == "{" else "]")
            yield from _pass_space(reader, give)
            if (yield from reader.peek()) != closers[-1]:
                yield from _pass_key(reader, give, closers)
                continue
        elif character == '"':
            yield from pass_string(reader, give)
        else:
            yield from _pass_scalar(reader, give)
        if not (yield from _pass_ends(reader, give, closers)):
            return


def pass_string(reader: Reader, give: Give) -> Steps[None]:
    """Pass a string on as it was written, mended where JSON would not allow it."""
    yield from reader.expect('"', "")
    give('"')
    while (character := (yield from reader.peek())) != '"':
        if plain := _PLAIN.match(reader.text, reader.at):
            _pass(reader, give, len(plain[0]))
        elif character == "\\":
            yield from _pass_escape(reader, give)
        elif character:
            reader.skip(1)
            give(json_body(character))
        else:
            raise Mismatch
    _pass(reader, give, 1)


def decode_string(reader: Reader, give: Give) -> Steps[None]:
    """Pass on what a string means."""
    yield from reader.expect('"', "")
    while (character := (yield from reader.peek())) != '"':
        if plain := _PLAIN.match(reader.text, reader.at):
            _pass(reader, give, len(plain[0]))
        elif character == "\\":
            yield from _decode_escape(reader, give)
        elif character:
            _pass(reader, give, 1)
        else:
            raise Mismatch
    reader.skip(1)


def read_string(reader: Reader) -> Steps[str]:
    """What a string means, whole."""
    pieces: list[str] = []
    yield from decode_string(reader, pieces.append)
    return "".join(pieces)


def _pass(reader: Reader, give: Give, num_chars: int) -> None:
    text = reader.text[reader.at : reader.at + num_chars]
    reader.skip(num_chars)
    give(text)


def _pass_space(reader: Reader, give: Give) -> Steps[None]:
    while (yield from reader.peek()) and (space := _SPACE.match(reader.text, reader.at)):
        _pass(reader, give, len(space[0]))


def _pass_key(reader: Reader, give: Give, closers: list[str]) -> Steps[None]:
    """The key of a member; an element has none."""
    if closers[-1] == "}":
        yield from _pass_space(reader, give)
        yield from pass_string(reader, give)
        yield from _pass_space(reader, give)
        if (yield from reader.peek()) != ":":
            raise Mismatch
        _pass(reader, give, 1)


def _pass_ends(reader: Reader, give: Give, closers: list[str]) -> Steps[bool]:
    """What follows a value; whether another value does."""
    while closers:
        yield from _pass_space(reader, give)
        character = yield from reader.peek()
        if character == closers[-1]:
            _pass(reader, give, 1)
            closers.pop()
        elif character == ",":
            _pass(reader, give, 1)
            yield from _pass_key(reader, give, closers)
            return True
        else:
            raise Mismatch
    return False


def _pass_scalar(reader: Reader, give: Give) -> Steps[None]:
    """A number or one of the three words; held until it is whole."""
    while True:
        word = _WORD.match(reader.text, reader.at)
        assert word is not None
        if word.end() < len(reader.text) or reader.ended:
            break
        if len(word[0]) > MAX_NUMBER_CHARS:
            break
        yield
    if len(word[0]) > MAX_NUMBER_CHARS or not _SCALAR.fullmatch(word[0]):
        raise Mismatch
    _pass(reader, give, len(word[0]))


def _pass_escape(reader: Reader, give: Give) -> Steps[None]:
    escape = yield from _whole_escape(reader)
    if escape == "\\":
        reader.skip(1)
        give("\\\\")
    else:
        _pass(reader, give, len(escape))


def _decode_escape(reader: Reader, give: Give) -> Steps[None]:
    escape = yield from _whole_escape(reader)
    if escape[1:2] != "u":
        reader.skip(len(escape))
        give(_ESCAPES[escape[1:] or "\\"])
    elif _PAIR.fullmatch(pair := (yield from reader.lookahead(12))):
        reader.skip(12)
        give(chr(0x10000 + ((int(pair[2:6], 16) & 0x3FF) << 10) + (int(pair[8:], 16) & 0x3FF)))
    else:
        reader.skip(6)
        code = int(escape[2:], 16)
        give("\ufffd" if 0xD800 <= code < 0xE000 else chr(code))


def _whole_escape(reader: Reader) -> Steps[str]:
    """The escape that stands here; a backslash alone if it escapes nothing."""
    start = yield from reader.lookahead(2)
    if len(start) < 2:
        raise Mismatch
    if start != "\\u":
        return start if start[1] in _ESCAPES else "\\"
    escape = yield from reader.lookahead(6)
    if len(escape) < 6 and '"' not in escape:
        raise Mismatch
    return escape if _UNICODE.fullmatch(escape) else "\\"
