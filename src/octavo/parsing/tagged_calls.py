"""Calls written as tags, one per parameter, with the values as plain text between them.

The arguments are translated to JSON while they come. Text between the tags of a call that is no
parameter is dropped. A call that is cut off has the beginning of a translation.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from octavo.parsing.call_section import read_section
from octavo.parsing.reader import Mismatch, Reader, Steps
from octavo.parsing.typed_values import TypedValue, parameter_types


@dataclass(frozen=True, slots=True)
class TaggedCalls:
    """`section_open (call_open NAME name_end (key_open KEY key_end value_open VALUE value_close)*
    call_close)* section_close`, with space between tags. With `newlines` one newline at either end
    of a value belongs to the tags."""

    section_open: str
    section_close: str
    call_open: str
    call_close: str
    name_end: str
    key_open: str
    key_end: str
    value_close: str
    value_open: str = ""
    newlines: bool = False

    def read(self, reader: Reader, opener: str) -> Steps[None]:
        yield from read_section(self, reader, opener, self._read_call)

    def _read_call(self, reader: Reader) -> Steps[None]:
        yield from reader.skip_space()
        ends = (self.name_end, self.key_open, self.call_close)
        name, marker = yield from reader.read_until(ends)
        if marker == self.name_end:
            reader.pass_marker(marker)
        name = name.strip().strip("\"'")
        reader.start(name)
        complete = False
        try:
            complete = yield from self._read_parameters(reader, name)
        except Mismatch:
            yield from reader.until((self.call_close,), _drop)
            yield from reader.accept((self.call_close,))
        reader.end(complete)

    def _read_parameters(self, reader: Reader, name: str) -> Steps[bool]:
        """Whether the call was closed."""
        schema = reader.emitter.tools.get(name, {})
        separator = "{"
        ends = (self.key_open, self.call_close, *filter(None, (self.section_close,)))
        while (marker := (yield from reader.until(ends, _drop))) == self.key_open:
            reader.pass_marker(marker)
            key, _ = yield from reader.read_until((self.key_end,))
            reader.pass_marker(self.key_end)
            key = key.strip().strip("\"'")
            if self.value_open:
                yield from reader.expect(self.value_open)
            reader.arguments(f"{separator}{json.dumps(key, ensure_ascii=False)}: ")
            value = TypedValue(parameter_types(schema, key), reader.arguments)
            yield from self._read_value(reader, value)
            separator = ", "
        if marker is None:
            return False
        reader.arguments("{}" if separator == "{" else "}")
        if marker == self.call_close:
            reader.pass_marker(marker)
        return True

    def _read_value(self, reader: Reader, value: TypedValue) -> Steps[None]:
        ends: tuple[str, ...] = (self.value_close,)
        if self.newlines:
            yield from reader.accept(("\n",), "")
            ends = ("\n" + self.value_close, self.value_close)
        marker = yield from reader.until(ends, value.add, trim=False)
        if marker is None:
            raise Mismatch
        reader.pass_marker(marker)
        value.close()


def _drop(_text: str) -> None:
    pass
