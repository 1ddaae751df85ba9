"""When an answer that says the same again and again is ended: one of the sampling parameters.

Knows no sequence; `scheduler.stopping` looks at the tokens.
"""

from __future__ import annotations

import msgspec

from octavo.core.ranges import check_integer
from octavo.errors import InvalidRequest

MAX_PATTERN_TOKENS = 256
MAX_COUNT = 1024


class RepetitionDetection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """vLLM's: an answer ends when its last tokens are `min_count` times the same pattern of
    `min_pattern_size` to `max_pattern_size` tokens. `max_pattern_size` 0 switches off,
    `min_pattern_size` 0 means 1."""

    max_pattern_size: int = 0
    min_pattern_size: int = 0
    min_count: int = 0

    def check(self) -> None:
        """Raises `InvalidRequest`."""
        name = "repetition_detection"
        check_integer(f"{name}[max_pattern_size]", self.max_pattern_size, 0, MAX_PATTERN_TOKENS)
        check_integer(f"{name}[min_pattern_size]", self.min_pattern_size, 0, MAX_PATTERN_TOKENS)
        least = 2 if self.max_pattern_size > 0 else 0
        check_integer(f"{name}[min_count]", self.min_count, least, MAX_COUNT)
        if self.min_pattern_size > self.max_pattern_size:
            raise InvalidRequest(
                f"{name} has min_pattern_size {self.min_pattern_size}; at most max_pattern_size, "
                f"{self.max_pattern_size}, is allowed",
                param=name,
            )
