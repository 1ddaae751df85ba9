"""Calls that are JSON objects with a name and arguments, one or several, in a list or not.

Keys may come in any order. Arguments that stand before the name are held until it is known. Some
models write the arguments as a string that holds JSON; what it holds is passed on.
"""

from __future__ import annotations

from dataclasses import dataclass

from octavo.parsing.json_text import decode_string, pass_json, read_string
from octavo.parsing.reader import WHITESPACE, Give, Mismatch, Reader, Steps


@dataclass(frozen=True, slots=True)
class JsonCalls:
    """`closers` may end the form. Commas and semicolons may separate calls in a list or outside."""

    closers: tuple[str, ...] = ()
    name_keys: tuple[str, ...] = ("name",)
    argument_keys: tuple[str, ...] = ("arguments", "parameters")

    def read(self, reader: Reader, opener: str) -> Steps[None]:
        """After the opener, which is the bracket itself where the dialect has no other marker."""
        is_open = opener == "{"
        in_list = opener == "["
        if not is_open and not in_list:
            in_list = (yield from reader.accept(("[",))) is not None
        while True:
            yield from self._read_object(reader, is_open)
            if (yield from reader.looking_at(("{",), WHITESPACE + ",;")) is None:
                break
            reader.begin_call()
            yield from reader.reach(("{",), WHITESPACE + ",;")
            is_open = False
        if in_list:
            yield from reader.accept(("]",))
        if self.closers:
            # Models miscount: a bracket too many is no text for the reader.
            yield from reader.accept(self.closers, WHITESPACE + "}]")

    def _read_object(self, reader: Reader, is_open: bool) -> Steps[None]:
        if not is_open:
            yield from reader.expect("{")
        name: str | None = None
        held: list[str] | None = None
        while True:
            yield from reader.skip_space()
            key = yield from read_string(reader)
            yield from reader.expect(":")
            yield from reader.skip_space()
            if key in self.name_keys and name is None:
                name = yield from read_string(reader)
            elif key in self.argument_keys and name is not None and held is None:
                reader.start(name)
                yield from reader.copy_arguments(pass_arguments, self.closers)
                yield from self._pass_rest(reader)
                return
            elif key in self.argument_keys and held is None:
                held = []
                yield from pass_arguments(reader, held.append)
            else:
                yield from pass_json(reader, _ignore)
            if (yield from reader.accept((",",))) is None:
                break
        yield from reader.expect("}")
        if name is None:
            raise Mismatch
        reader.start(name)
        reader.arguments("{}" if held is None else "".join(held))
        reader.end(complete=True)

    def _pass_rest(self, reader: Reader) -> Steps[None]:
        """Members after the arguments, which say nothing, and the brace, if the model wrote it."""
        while (yield from reader.accept((",",))) is not None:
            yield from reader.skip_space()
            yield from read_string(reader)
            yield from reader.expect(":")
            yield from pass_json(reader, _ignore)
        yield from reader.accept(("}",))


def pass_arguments(reader: Reader, give: Give) -> Steps[None]:
    """The value of the arguments: JSON, or a string of JSON."""
    if (yield from reader.peek()) == '"':
        yield from decode_string(reader, give)
    else:
        yield from pass_json(reader, give)


def _ignore(_text: str) -> None:
    pass
