"""A request's wish that a logits processor of the server be applied to its answer. Plain data."""

from __future__ import annotations

from typing import Any

import msgspec

MAX_PROCESSORS = 8


class ProcessorCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`qualname` is the name that `--logits-processors` gave it, `kwargs` what it is told, in types
    of JSON. Both names are vLLM's."""

    qualname: str
    kwargs: dict[str, Any] = {}
