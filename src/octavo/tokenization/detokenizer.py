"""Turns a stream of token ids into text, whole characters only. Knows bytes, no vocabulary.

Joined, the pieces equal the decoding of all bytes at once, however the tokens cut them: an
unfinished character is held back, an invalid one becomes U+FFFD once per maximal subpart (Unicode
Standard, section 3.9), as bytes.decode(errors="replace") does. Cost is linear in the bytes.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable

_UTF8 = codecs.getincrementaldecoder("utf-8")


class Detokenizer:
    """`token_bytes` gives the bytes of a token, empty for one that is not shown.

    With `strips_space` the first character of the text is dropped if it is a space: it stands for
    the one that encoding had added.
    """

    def __init__(self, token_bytes: Callable[[int], bytes], *, strips_space: bool) -> None:
        self._token_bytes = token_bytes
        self._decoder = _UTF8(errors="replace")
        self._strips_space = strips_space

    def push(self, token_id: int) -> str:
        """The characters that this token completes."""
        return self._strip(self._decoder.decode(self._token_bytes(token_id)))

    def flush(self) -> str:
        """What is left at the end: U+FFFD if the stream ends inside a character."""
        return self._strip(self._decoder.decode(b"", final=True))

    def _strip(self, text: str) -> str:
        if self._strips_space and text:
            self._strips_space = False
            return text.removeprefix(" ")
        return text
