"""Counts the tokens of one HTTP request as its outputs come. Knows no wire but the usage object."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET, UnsetType

from octavo.core.outputs import SequenceOutput
from octavo.core.request import EngineRequest
from octavo.entrypoints.openai.generation.objects import (
    CompletionTokensDetails,
    PromptTokensDetails,
    Usage,
)


class UsageCounter:
    """A prompt counts once, whatever n is; its cached tokens are those of its first sequence.
    Who can tell reasoning from the rest counts its tokens in `num_reasoning_tokens`."""

    def __init__(self, requests: Sequence[EngineRequest]) -> None:
        self._n = requests[0].sampling_params.n
        self._num_prompt_tokens = sum(len(request.prompt_token_ids) for request in requests)
        self._num_completion_tokens = 0
        self._num_cached_tokens = [0] * len(requests)
        self.num_reasoning_tokens: int | None = None

    def add(self, choice: int, output: SequenceOutput) -> None:
        self._num_completion_tokens += len(output.token_ids)
        if output.index == 0 and output.num_cached_tokens:
            self._num_cached_tokens[choice // self._n] = output.num_cached_tokens

    def usage(self) -> Usage:
        details: CompletionTokensDetails | UnsetType = UNSET
        if self.num_reasoning_tokens is not None:
            details = CompletionTokensDetails(self.num_reasoning_tokens)
        return Usage(
            prompt_tokens=self._num_prompt_tokens,
            completion_tokens=self._num_completion_tokens,
            total_tokens=self._num_prompt_tokens + self._num_completion_tokens,
            prompt_tokens_details=PromptTokensDetails(sum(self._num_cached_tokens)),
            completion_tokens_details=details,
        )
