"""The ranges of number fields on the wire, by name: those of `SamplingParams` and a few more.

For what describes the interface; the checks themselves stand where the values are used.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from octavo.config.server import MAX_TIMEOUT_SECONDS
from octavo.core.ranges import Range
from octavo.core.sampling_params import (
    MAX_BEAM_WIDTH,
    MAX_BEST_OF,
    MAX_LOGPROBS,
    MAX_N,
    RANGES,
)

STREAM_INTERVAL: Final = Range("stream_interval", 1, 65536)

FIELD_RANGES: Final = MappingProxyType(
    {
        limits.name: limits
        for limits in (
            *RANGES,
            Range("n", 1, MAX_N),
            Range("best_of", 1, MAX_BEST_OF),
            Range("beam_width", 1, MAX_BEAM_WIDTH),
            Range("top_logprobs", 0, MAX_LOGPROBS),
            Range("max_completion_tokens", 0, 2**31 - 1),
            Range("dimensions", 1, 2**31 - 1),
            Range("top_n", 0, 2**31 - 1),
            Range("timeout", 0.0, float(MAX_TIMEOUT_SECONDS), low_open=True),
            STREAM_INTERVAL,
        )
    }
)
