"""What `LLM` returns, under vLLM's names, and how it grows out of the engine's deltas."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from octavo.core.outputs import RequestTimes, SequenceOutput, TokenLogprobs
from octavo.core.request import EngineRequest

LOWEST_LOGPROB = -9999.0
"""Stands for minus infinity where answers are written as JSON, which cannot say it."""


class TokenSpelling(Protocol):
    """The part of a tokenizer that names single tokens."""

    def token_text(self, token_id: int) -> str: ...


@dataclass(frozen=True, slots=True)
class Logprob:
    """Log probability of one token at one position. `rank` 1 is the most probable."""

    logprob: float
    rank: int
    decoded_token: str


PositionLogprobs = dict[int, Logprob]
"""By token id: the chosen token and the most probable ones."""


@dataclass(slots=True)
class CompletionOutput:
    """One answer. `cumulative_logprob` and `logprobs` are None unless they were asked for, or the
    answer was picked by the former."""

    index: int
    text: str = ""
    token_ids: list[int] = field(default_factory=list)
    cumulative_logprob: float | None = None
    logprobs: list[PositionLogprobs] | None = None
    finish_reason: str | None = None
    stop_reason: int | str | None = None

    def finished(self) -> bool:
        return self.finish_reason is not None


@dataclass(slots=True)
class RequestOutput:
    """One prompt and its `n` answers. `prompt` is None when token ids were given."""

    request_id: str
    prompt: str | None
    prompt_token_ids: list[int]
    prompt_logprobs: list[PositionLogprobs | None] | None
    outputs: list[CompletionOutput]
    finished: bool = False
    metrics: RequestTimes | None = None
    num_cached_tokens: int = 0


class ResultBuilder:
    """One request's output, grown delta by delta."""

    def __init__(
        self, request: EngineRequest, prompt: str | None, tokenizer: TokenSpelling
    ) -> None:
        self._tokenizer = tokenizer
        outputs = [CompletionOutput(index=index) for index in range(request.sampling_params.n)]
        self.result = RequestOutput(
            request_id=request.request_id,
            prompt=prompt,
            prompt_token_ids=request.prompt_token_ids,
            prompt_logprobs=None,
            outputs=outputs,
        )

    def add(self, delta: SequenceOutput) -> None:
        """Take one delta of this request."""
        output = self.result.outputs[delta.index]
        output.text += delta.text
        output.token_ids += delta.token_ids
        if delta.logprobs is not None:
            self._add_logprobs(output, delta.logprobs)
        if delta.prompt_logprobs is not None:
            self.result.prompt_logprobs = [
                None if entry is None else self._position(entry) for entry in delta.prompt_logprobs
            ]
        self.result.num_cached_tokens = max(self.result.num_cached_tokens, delta.num_cached_tokens)
        if delta.finish_reason is not None:
            output.finish_reason = delta.finish_reason
            output.stop_reason = delta.stop_reason
            if delta.cumulative_logprob is not None:
                output.cumulative_logprob = delta.cumulative_logprob
            self.result.finished = all(item.finish_reason for item in self.result.outputs)

    def _add_logprobs(self, output: CompletionOutput, entries: list[TokenLogprobs]) -> None:
        output.logprobs = (output.logprobs or []) + [self._position(entry) for entry in entries]
        total = output.cumulative_logprob or 0.0
        output.cumulative_logprob = total + sum(entry.logprob for entry in entries)

    def _position(self, entry: TokenLogprobs) -> PositionLogprobs:
        position = {entry.token_id: self._logprob(entry.token_id, entry.logprob, entry.rank)}
        pairs = zip(entry.top_token_ids, entry.top_logprobs, strict=True)
        for rank, (token_id, logprob) in enumerate(pairs, start=1):
            position.setdefault(token_id, self._logprob(token_id, logprob, rank))
        return position

    def _logprob(self, token_id: int, logprob: float, rank: int) -> Logprob:
        return Logprob(logprob, rank, self._tokenizer.token_text(token_id))
