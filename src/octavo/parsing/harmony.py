"""The channels of gpt-oss: reasoning, calls and answer as messages of one answer. OpenAI harmony.

`<|channel|>analysis<|message|>` is reasoning, a message `to=functions.NAME` a call, any other
message content. The text begins after `<|start|>assistant`, which the prompt holds.
"""

from __future__ import annotations

import re

from octavo.parsing.json_calls import pass_arguments
from octavo.parsing.reader import Mismatch, Reader, Steps

_BEGINS = ("<|channel|>", "<|start|>")
_ENDS = ("<|end|>", "<|call|>", "<|return|>")
MARKERS = frozenset({*_BEGINS, *_ENDS, "<|message|>", "<|constrain|>"})
_RECIPIENT = re.compile(r"\bto=([^\s<]+)")
_CHANNEL = re.compile(r"<\|channel\|>\s*(\w+)")


def read_harmony(reader: Reader) -> Steps[None]:
    """The whole answer."""
    while (marker := (yield from reader.until(_BEGINS, reader.emitter.content))) is not None:
        reader.open_form(marker)
        try:
            header, _ = yield from reader.read_until(("<|message|>",))
            reader.pass_marker("<|message|>")
            yield from _read_message(reader, marker + header)
        except Mismatch:
            reader.refute()
        else:
            yield from reader.close_form()


def _read_message(reader: Reader, header: str) -> Steps[None]:
    ends = _ENDS + _BEGINS
    recipient = _RECIPIENT.search(header)
    channel = _CHANNEL.search(header)
    if recipient:
        yield from reader.skip_space()
        reader.start(recipient[1].removeprefix("functions."))
        yield from reader.copy_arguments(pass_arguments, ends)
    else:
        is_reasoning = channel is not None and channel[1] == "analysis"
        give = reader.emitter.reasoning if is_reasoning else reader.emitter.content
        reader.drop_attempt()
        yield from reader.until(ends, give)
    yield from reader.accept(_ENDS)
