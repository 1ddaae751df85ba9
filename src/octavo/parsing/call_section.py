"""Calls one after the other, alone or in a section with its own marks. Knows no call's inside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from octavo.parsing.reader import Reader, Steps


class Section(Protocol):
    """`section_open (call_open ...)* section_close`; the last is "" where nothing closes it."""

    @property
    def section_open(self) -> str: ...

    @property
    def section_close(self) -> str: ...

    @property
    def call_open(self) -> str: ...


def read_section(
    section: Section, reader: Reader, opener: str, read_call: Callable[[Reader], Steps[None]]
) -> Steps[None]:
    """All calls behind `opener`, which has been read and is a section's mark or a call's."""
    if opener == section.section_open:
        yield from reader.expect(section.call_open)
    while True:
        yield from read_call(reader)
        if (yield from reader.looking_at((section.call_open,))) is None:
            break
        reader.begin_call()
        yield from reader.expect(section.call_open)
    if section.section_close:
        yield from reader.accept((section.section_close,))
