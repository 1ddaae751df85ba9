"""From a chat's fields to `SamplingParams`. Knows no model and no response shape."""

from __future__ import annotations

from octavo.core.sampling_params import MAX_LOGPROBS, SamplingParams
from octavo.entrypoints.openai.chat.request import ChatRequest
from octavo.entrypoints.openai.generation.sampling import common_params
from octavo.errors import InvalidRequest


def chat_params(request: ChatRequest) -> SamplingParams:
    """Raises `InvalidRequest` or `UnsupportedParameter`. Without a limit, max_tokens is None."""
    limits = (request.max_tokens, request.max_completion_tokens)
    if None not in limits and limits[0] != limits[1]:
        raise InvalidRequest(
            f"max_tokens is {limits[0]} and max_completion_tokens {limits[1]}; give one of them",
            param="max_completion_tokens",
        )
    return SamplingParams(
        **common_params(request),
        max_tokens=limits[0] if limits[1] is None else limits[1],
        logprobs=_num_chat_logprobs(request),
        prompt_logprobs=request.prompt_logprobs,
    )


def _num_chat_logprobs(request: ChatRequest) -> int | None:
    """`logprobs` asks, `top_logprobs` says how many alternatives."""
    top = request.top_logprobs
    if not request.logprobs:
        if top:
            raise InvalidRequest(
                f"top_logprobs is {top} without logprobs; logprobs must be true",
                param="top_logprobs",
            )
        return None
    if top is not None and not 0 <= top <= MAX_LOGPROBS:
        raise InvalidRequest(
            f"top_logprobs is {top}; an integer from 0 to {MAX_LOGPROBS} is allowed",
            param="top_logprobs",
        )
    return top or 0
