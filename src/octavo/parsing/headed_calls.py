"""Calls whose name stands before a marker and whose arguments are JSON after it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from octavo.parsing.call_section import read_section
from octavo.parsing.json_calls import JsonCalls, pass_arguments
from octavo.parsing.reader import Mismatch, Reader, Steps

_NUMBERED = re.compile(r"(?:functions\.)?(.+):[0-9]+")


@dataclass(frozen=True, slots=True)
class HeadedCalls:
    """`section_open (call_open prefix name name_end {json} fence call_close)* section_close`.

    With `numbered_ids` the name is written `functions.NAME:NUMBER`, which is the call's id too.
    """

    section_open: str
    section_close: str
    call_open: str
    call_close: str
    name_end: str
    prefix: str = ""
    fence: str = ""
    numbered_ids: bool = False

    def read(self, reader: Reader, opener: str) -> Steps[None]:
        yield from read_section(self, reader, opener, self._read_call)

    def _read_call(self, reader: Reader) -> Steps[None]:
        if self.prefix:
            yield from reader.expect(self.prefix)
        header, marker = yield from reader.read_until((self.name_end, self.call_close))
        if marker != self.name_end:
            raise Mismatch
        reader.pass_marker(marker)
        yield from reader.skip_space()
        header = header.strip()
        if self.numbered_ids:
            numbered = _NUMBERED.fullmatch(header)
            reader.start(numbered[1] if numbered else header, header if numbered else None)
        else:
            reader.start(header)
        yield from reader.copy_arguments(pass_arguments, (self.call_close, self.section_close))
        if self.fence:
            yield from reader.accept((self.fence,))
        yield from reader.accept((self.call_close,))


@dataclass(frozen=True, slots=True)
class MistralCalls:
    """After `[TOOL_CALLS]`: a JSON list of calls (older models), or `name[ARGS]{json}`, with
    `[CALL_ID]id` after the name in some. Further calls have a `[TOOL_CALLS]` of their own."""

    opener: str = "[TOOL_CALLS]"
    id_mark: str = "[CALL_ID]"
    arguments_mark: str = "[ARGS]"

    def read(self, reader: Reader, _opener: str) -> Steps[None]:
        if (yield from reader.reach(("[", "{"))) is not None:
            yield from JsonCalls().read(reader, self.opener)
            return
        begins = (self.arguments_mark, "{", self.opener)
        name, marker = yield from reader.read_until((self.id_mark, *begins))
        call_id: str | None = None
        if marker == self.id_mark:
            reader.pass_marker(marker)
            call_id, marker = yield from reader.read_until(begins)
        if marker == self.opener:
            raise Mismatch
        if marker == self.arguments_mark:
            reader.pass_marker(marker)
        yield from reader.skip_space()
        reader.start(name.strip(), call_id and call_id.strip())
        yield from reader.copy_arguments(pass_arguments, (self.opener,))
