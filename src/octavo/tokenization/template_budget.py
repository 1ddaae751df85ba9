"""What one rendering of a chat template may use: time, characters, sizes of values.

Templates come out of model files and are hostile until proven otherwise (rule R2). Python can
neither interrupt one long C call nor take back an allocation, so every operation that could make a
value much larger than its operands asks here first. Knows no syntax and no names.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import chain
from typing import Final

from jinja2 import Undefined

from octavo.config.front_limits import FrontLimits
from octavo.errors import TemplateError

MAX_WRITTEN_CHARS: Final = 1 << 24
MAX_INT_BITS: Final = 128


class Budget:
    """`max_chars` bounds the output and every string on the way to it. Seconds are those of this
    thread's processor time, so that a busy machine fails no honest template."""

    def __init__(self, max_chars: int, limits: FrontLimits) -> None:
        self.max_chars = max_chars
        self._max_items = limits.template_items
        self._max_seconds = limits.template_seconds
        self._written_chars = 0
        self._weights: dict[int, tuple[object, tuple[int, int]]] = {}
        self._deadline = time.thread_time() + self._max_seconds

    def tick(self, chars: int = 0) -> None:
        """One loop pass, call or piece of output, which writes `chars` characters."""
        self._written_chars += chars
        if self._written_chars > MAX_WRITTEN_CHARS:
            raise TemplateError(
                f"the chat template writes more than {MAX_WRITTEN_CHARS} characters"
            )
        if time.thread_time() > self._deadline:
            raise TemplateError(
                f"the chat template takes more than {self._max_seconds} seconds"
                " (see --template-seconds)"
            )

    def chars(self, count: int) -> None:
        """A string of `count` characters is about to be made."""
        if count > self.max_chars:
            raise TemplateError(
                f"the chat template makes a text of {count} characters; at most "
                f"{self.max_chars} are allowed for these messages (see --template-output-chars)"
            )

    def items(self, count: int) -> None:
        """A list of `count` items is about to be made or counted over."""
        if count > self._max_items:
            raise TemplateError(
                f"the chat template makes a list of {count} items; {self._max_items} are allowed"
                " (see --template-items)"
            )

    def value(self, value: object) -> None:
        """A list, tuple or dict was made. Written out as a tree, with shared parts counted each
        time, it must be small: that is what showing or comparing it costs."""
        items, chars = self._weigh(value)
        self.items(items)
        self.chars(chars)

    def _weigh(self, value: object) -> tuple[int, int]:
        """(items, characters) of the tree. Values never change while a template runs, so each
        container is weighed once, from the weights of its parts."""
        if isinstance(value, str):
            return 1, len(value)
        if value is None or isinstance(value, int | float | range | Undefined):
            return 1, 0
        known = self._weights.get(id(value))
        if known is not None:
            return known[1]
        if not isinstance(value, dict | list | tuple):
            raise TemplateError(
                f"the chat template puts a {type(value).__name__} into a list or shows it"
            )
        parts = chain(value.keys(), value.values()) if isinstance(value, dict) else value
        items, chars = 1, 0
        for part in parts:
            part_items, part_chars = self._weigh(part)
            items, chars = items + part_items, chars + part_chars
        self._weights[id(value)] = (value, (items, chars))  # the value too: its id stays taken
        return items, chars

    def number(self, value: object) -> None:
        if isinstance(value, int) and value.bit_length() > MAX_INT_BITS:
            raise TemplateError(f"the chat template makes a number of over {MAX_INT_BITS} bits")

    def operation(self, operator: str, left: object, right: object) -> None:
        """`left operator right` is about to be computed."""
        if operator == "%" and isinstance(left, str):
            raise TemplateError("the chat template formats with %, which is not supported")
        if operator == "**":
            raise TemplateError("the chat template uses **, which is not supported")
        if operator == "+":
            self._joined(left, right)
        if operator == "*":
            self._repeated(left, right)
            self._repeated(right, left)

    def _joined(self, left: object, right: object) -> None:
        if isinstance(left, str) and isinstance(right, str):
            self.chars(len(left) + len(right))
        elif isinstance(left, list | tuple) and isinstance(right, list | tuple):
            self.items(len(left) + len(right))

    def _repeated(self, sequence: object, times: object) -> None:
        if not isinstance(times, int):
            return
        if isinstance(sequence, str):
            self.chars(len(sequence) * times)
        elif isinstance(sequence, list | tuple):
            self.items(len(sequence) * times)


def joined_chars(parts: Sequence[str], separator: str) -> int:
    """Characters of separator.join(parts)."""
    return sum(map(len, parts)) + len(separator) * max(len(parts) - 1, 0)
