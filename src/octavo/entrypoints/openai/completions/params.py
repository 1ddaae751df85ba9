"""From a completion's fields to `SamplingParams`. Knows no model and no response shape."""

from __future__ import annotations

from octavo.core.sampling_params import SamplingParams
from octavo.entrypoints.openai.completions.request import CompletionRequest
from octavo.entrypoints.openai.generation.sampling import common_params

DEFAULT_COMPLETION_TOKENS = 16


def completion_params(request: CompletionRequest) -> SamplingParams:
    """Raises `InvalidRequest` or `UnsupportedParameter`. An echo with logprobs wants those too."""
    max_tokens = request.max_tokens
    echoed = request.logprobs if request.echo else None
    return SamplingParams(
        **common_params(request),
        max_tokens=DEFAULT_COMPLETION_TOKENS if max_tokens is None else max_tokens,
        logprobs=request.logprobs,
        prompt_logprobs=echoed if request.prompt_logprobs is None else request.prompt_logprobs,
    )
