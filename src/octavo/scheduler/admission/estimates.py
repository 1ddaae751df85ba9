"""What is learned of requests: bytes per token, length of answers, how long a slot is held.

From these the size and the wait of a request are told before it is tokenised. Knows no clock, no
tokenizer and no engine, only what it is told of them.
"""

from __future__ import annotations

import math

from octavo.core.outputs import RequestTimes
from octavo.scheduler.running_ratio import RunningRatio

FIRST_BYTES_PER_TOKEN = 4.0
"""Of English text in vocabularies of 32,000 and more, until this model's own ratio is known."""

FIRST_OUTPUT_TOKENS = 128
SAMPLE_CHARS = 4096
WINDOW_TOKENS = 65536
WINDOW_SEQUENCES = 64


def num_text_bytes(text: str) -> int:
    """Bytes of a text in UTF-8: exact if it is ASCII or short, else by its beginning."""
    if text.isascii():
        return len(text)
    sample = text[:SAMPLE_CHARS]
    return len(sample.encode("utf-8", "surrogatepass")) * len(text) // len(sample)


class Estimates:
    """One per model. All times in seconds."""

    def __init__(self) -> None:
        self._bytes_per_token = RunningRatio(FIRST_BYTES_PER_TOKEN, 256, WINDOW_TOKENS)
        self._output_tokens = RunningRatio(FIRST_OUTPUT_TOKENS, 1, WINDOW_SEQUENCES)
        self._slot_seconds = RunningRatio(0, 0, WINDOW_SEQUENCES)
        self._token_seconds = RunningRatio(0, 0, WINDOW_TOKENS)

    def num_prompt_tokens(self, num_bytes: int) -> int:
        """Rounded up: any text has a token."""
        return math.ceil(num_bytes / self._bytes_per_token.value)

    @property
    def num_output_tokens(self) -> int:
        """The mean answer of a sequence whose client set no limit."""
        return round(self._output_tokens.value)

    @property
    def slot_seconds(self) -> float:
        """How long a sequence runs, from its slot to its last token; 0 while unknown."""
        return self._slot_seconds.value

    @property
    def token_seconds(self) -> float:
        """From one token of an answer to the next; 0 while unknown."""
        return self._token_seconds.value

    def tokenised(self, num_bytes: int, num_tokens: int) -> None:
        self._bytes_per_token.count(num_bytes, num_tokens)

    def answered(self, num_tokens: int, num_sequences: int) -> None:
        """By a request whose client set no limit."""
        self._output_tokens.count(num_tokens, num_sequences)

    def finished(self, times: RequestTimes) -> None:
        """A sequence ended. Those that gave up before they said anything teach nothing."""
        if times.num_generation_tokens:
            self._slot_seconds.count(times.prefill_seconds + times.decode_seconds, 1)
        if times.num_generation_tokens > 1:
            self._token_seconds.count(times.decode_seconds, times.num_generation_tokens - 1)
