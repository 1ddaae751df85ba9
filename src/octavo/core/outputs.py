"""What the engine says about a request: a stream of deltas per sequence, the last one terminal.

Every (request_id, index) gets exactly one output with a finish_reason, whatever happens.
"""

from __future__ import annotations

from io import StringIO
from typing import Literal

import msgspec
from msgspec.structs import replace

from octavo.core.step_load import MeasuredStep

FinishReason = Literal["stop", "length", "abort", "error", "repetition"]

DEADLINE_EXCEEDED = "the deadline of this request passed before its answer was complete"
"""The error of a sequence that its request's deadline ended; doors tell it from failures by it."""
STOP_REGEX_FAILED = "a stop_regex needs too many states for this text; it must be simpler"
FORM_NOT_KEPT = (
    "structured_outputs and the other parameters (allowed_token_ids, bad_words, min_tokens, ...)"
    " left no token to go on with, or the form became too complex"
)
"""The error of a sequence whose grammar came to an end without its text; the client's fault."""


class TokenLogprobs(msgspec.Struct, frozen=True, array_like=True):
    """Log probabilities at one position. `rank` is 1 for the most probable token.

    The chosen (or, in a prompt, the actual) token first, then the n most probable in order.
    """

    token_id: int
    logprob: float
    rank: int
    top_token_ids: list[int]
    top_logprobs: list[float]


class SequenceOutput(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """New tokens of one sequence since its last output.

    `text` holds whole characters only and never any part of a stop string (unless asked for).
    `logprobs` has one entry per new token. `prompt_logprobs` comes once, with the first output of
    sequence 0; its first entry is None. `stop_reason` is the stop string or stop token id.
    `num_cached_tokens` counts prompt tokens served by the prefix cache. `error` explains "error".
    `cumulative_logprob` is what answers were picked by, with the last output of each. `embedding`
    is the answer of a request with `pooling`: float32, little-endian.
    """

    request_id: str
    index: int = 0
    token_ids: list[int] = []
    text: str = ""
    logprobs: list[TokenLogprobs] | None = None
    prompt_logprobs: list[TokenLogprobs | None] | None = None
    finish_reason: FinishReason | None = None
    stop_reason: int | str | None = None
    num_cached_tokens: int = 0
    cumulative_logprob: float | None = None
    embedding: bytes | None = None
    error: str | None = None


class JoinedOutputs:
    """Consecutive outputs of one sequence, held as one until somebody reads it.

    Adding one costs what it brings and holds its tokens and text only, so a reader who never comes
    costs no more than the answer is long.
    """

    def __init__(self, first: SequenceOutput) -> None:
        self._first = first
        self._last = first
        self._token_ids = list(first.token_ids)
        self._texts = StringIO()
        self._texts.write(first.text)
        self._logprobs = None if first.logprobs is None else list(first.logprobs)
        self._prompt_logprobs = first.prompt_logprobs
        self._num_cached_tokens = first.num_cached_tokens

    @property
    def num_tokens(self) -> int:
        return len(self._token_ids)

    def add(self, output: SequenceOutput) -> None:
        self._last = output
        self._token_ids += output.token_ids
        self._texts.write(output.text)
        if output.logprobs is not None:
            self._logprobs = self._logprobs or []
            self._logprobs += output.logprobs
        self._prompt_logprobs = self._prompt_logprobs or output.prompt_logprobs
        self._num_cached_tokens = output.num_cached_tokens or self._num_cached_tokens

    def output(self) -> SequenceOutput:
        """All that came, as one output; to be read once."""
        if self._last is self._first:
            return self._first
        return replace(
            self._last,
            token_ids=self._token_ids,
            text=self._texts.getvalue(),
            logprobs=self._logprobs,
            prompt_logprobs=self._prompt_logprobs,
            num_cached_tokens=self._num_cached_tokens,
        )


class RequestTimes(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Seconds of one finished sequence, for metrics. All measured by the engine's clock."""

    queue_seconds: float = 0.0
    prefill_seconds: float = 0.0
    decode_seconds: float = 0.0
    num_prompt_tokens: int = 0
    num_generation_tokens: int = 0
    num_preemptions: int = 0


class EngineStats(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A snapshot of the engine. Counters only grow.

    A page that only the prefix cache holds counts as free: `num_used_pages` are those that some
    sequence holds. `num_undefined_rows` counts tokens drawn from logits that were all NaN or -inf.
    `cpu_seconds` is the processor time of the engine's process, `python_cpu_seconds` the part of it
    that the engine's thread spent outside native code.

    `num_waiting_tokens`: prompt tokens still to compute, of all live sequences. The model of the
    step time: `prompt_seconds_per_token` is what one more prompt token costs,
    `step_seconds_per_sequence` what one more decoding sequence costs a step; 0 while unknown.

    `num_swapped` of the waiting sequences have their pages in the swap space. Pages were copied
    when a shared one was written, or moved out and in by swapping. `num_wasted_tokens` were
    computed again after a preemption. `num_wasted_slots` of the held pages hold no token now. So
    many pages more as `num_saved_pages` would be held if nobody shared one; `num_pinned_pages` stay
    in the prefix cache until they are let go, and `num_evicted_pages` had to leave it.
    `num_expired` sequences were ended by their deadline. Waiting sequences are counted by what they
    wait for ("slots", "pages", "prefix", "policy") and by tenant, the largest ones only.
    """

    num_running: int = 0
    num_waiting: int = 0
    num_pages: int = 0
    num_used_pages: int = 0
    num_cached_pages: int = 0
    num_steps: int = 0
    num_preemptions: int = 0
    prefix_cache_queries: int = 0
    prefix_cache_hits: int = 0
    num_prompt_tokens: int = 0
    num_generation_tokens: int = 0
    num_step_tokens: int = 0
    num_undefined_rows: int = 0
    step_seconds: float = 0.0
    cpu_seconds: float = 0.0
    python_cpu_seconds: float = 0.0
    num_waiting_tokens: int = 0
    prompt_seconds_per_token: float = 0.0
    step_seconds_per_sequence: float = 0.0
    num_swapped: int = 0
    num_copied_pages: int = 0
    num_swapped_out_pages: int = 0
    num_swapped_in_pages: int = 0
    num_wasted_tokens: int = 0
    num_wasted_slots: int = 0
    num_expired: int = 0
    num_saved_pages: int = 0
    num_pinned_pages: int = 0
    num_evicted_pages: int = 0
    num_waiting_by_reason: dict[str, int] = {}
    num_waiting_by_tenant: dict[str, int] = {}


class EngineOutputs(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything one step had to say. `steps`: measured ones, a step later than they were done."""

    outputs: list[SequenceOutput] = []
    finished: list[tuple[str, int, RequestTimes]] = []
    steps: list[MeasuredStep] = []
    stats: EngineStats = EngineStats()


class EngineFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known once an engine is ready. `start_seconds` is the time of each phase by name."""

    num_pages: int = 0
    start_seconds: dict[str, float] = {}
