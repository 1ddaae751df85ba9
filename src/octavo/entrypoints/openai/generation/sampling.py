"""From the wire's generation fields to those of `SamplingParams`. Knows no model and no route."""

from __future__ import annotations

from typing import Any

from octavo.core.processor_call import ProcessorCall
from octavo.core.sampling_params import MAX_LOGIT_BIAS
from octavo.core.token_filters import TokenFilters
from octavo.entrypoints.openai.bodies.field_ranges import STREAM_INTERVAL
from octavo.entrypoints.openai.generation.request import GenerationRequest
from octavo.entrypoints.openai.generation.structured import structured_outputs
from octavo.errors import InvalidRequest, UnsupportedParameter

_SAME_NAME = (
    "n",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "seed",
    "stop",
    "stop_regex",
    "stop_token_ids",
    "include_stop_str_in_output",
    "ignore_eos",
    "min_tokens",
    "repetition_detection",
    "best_of",
    "use_beam_search",
    "beam_width",
    "length_penalty",
    "early_stopping",
    "skip_special_tokens",
    "spaces_between_special_tokens",
    "truncate_prompt_tokens",
    "truncation_side",
    *TokenFilters.__struct_fields__,
)


def common_params(request: GenerationRequest) -> dict[str, Any]:
    """The fields of `SamplingParams` that were given; the others keep their defaults.

    Raises `InvalidRequest` or `UnsupportedParameter`.
    """
    _check(request)
    given = {name: value for name in _SAME_NAME if (value := getattr(request, name)) is not None}
    given["logit_bias"] = _logit_bias(request.logit_bias)
    given["logits_processors"] = _processor_calls(request)
    given["structured_outputs"] = structured_outputs(request)
    return given


def _processor_calls(request: GenerationRequest) -> list[ProcessorCall] | None:
    """A name alone is one without kwargs. vLLM's further arguments are for all of them."""
    given, further = request.logits_processors, request.vllm_xargs
    if not given:
        if further:
            raise InvalidRequest(
                "vllm_xargs is given without logits_processors, which it is for", param="vllm_xargs"
            )
        return None
    calls = [ProcessorCall(one) if isinstance(one, str) else one for one in given]
    if not further:
        return calls
    return [ProcessorCall(call.qualname, {**further, **call.kwargs}) for call in calls]


def _logit_bias(wire: dict[str, float] | None) -> dict[int, float] | None:
    """JSON's keys are texts. Values beyond 100 are refused later, not clamped."""
    if not wire:
        return None
    if len(wire) > MAX_LOGIT_BIAS:
        raise InvalidRequest(
            f"logit_bias has {len(wire)} entries; at most {MAX_LOGIT_BIAS} are allowed",
            param="logit_bias",
        )
    return {_token_id(key): bias for key, bias in wire.items()}


def _token_id(key: str) -> int:
    if not (key.isascii() and key.isdigit() and len(key) <= 10):
        raise InvalidRequest(
            f"logit_bias has the key {key[:32]!r}; token ids are allowed", param="logit_bias"
        )
    return int(key)


def _check(request: GenerationRequest) -> None:
    if request.stream_options is not None and not request.stream:
        raise InvalidRequest(
            "stream_options is given without stream; stream must be true", param="stream_options"
        )
    if request.stream_interval is not None:
        STREAM_INTERVAL.check(request.stream_interval)
    if request.stream and request.prompt_logprobs is not None:
        raise _unsupported("prompt_logprobs", "is given with stream; use it without stream")
    if request.stream and request.use_beam_search:
        raise _unsupported("use_beam_search", "is true with stream; use it without stream")
    if request.stream and (request.best_of or 1) > (request.n or 1):
        raise _unsupported("best_of", f"is {request.best_of} with stream; use it without stream")
    if request.store:
        raise _unsupported("store", "is true; nothing is stored, only false is supported")


def _unsupported(name: str, what: str) -> UnsupportedParameter:
    return UnsupportedParameter(f"{name} {what}", param=name, code="unsupported_parameter")
