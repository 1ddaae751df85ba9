"""The fields that every request for generated text may have. Knows no engine."""

from __future__ import annotations

from typing import Literal

import msgspec

from octavo.core.processor_call import ProcessorCall
from octavo.core.repetition_detection import RepetitionDetection
from octavo.entrypoints.openai.bodies.body import Label, Unsupported
from octavo.entrypoints.openai.generation.structured_fields import StructuredFields


class StreamOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


class GenerationRequest(StructuredFields, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What chat and completions share. Ranges are checked by `SamplingParams`."""

    n: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = None
    logit_bias: dict[str, float] | None = None
    top_n_sigma: float | None = None
    typical_p: float | None = None
    xtc_probability: float | None = None
    xtc_threshold: float | None = None
    dynatemp_range: float | None = None
    dynatemp_exponent: float | None = None
    mirostat: int | None = None
    mirostat_tau: float | None = None
    mirostat_eta: float | None = None
    dry_multiplier: float | None = None
    dry_base: float | None = None
    dry_allowed_length: int | None = None
    dry_penalty_last_n: int | None = None
    dry_sequence_breakers: list[str] | None = None
    allowed_token_ids: list[int] | None = None
    bad_words: list[str] | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    stop_regex: str | list[str] | None = None
    stop_token_ids: list[int] | None = None
    include_stop_str_in_output: bool = False
    ignore_eos: bool = False
    max_tokens: int | None = None
    min_tokens: int | None = None
    repetition_detection: RepetitionDetection | None = None
    skip_special_tokens: bool = True
    spaces_between_special_tokens: bool = True
    best_of: int | None = None
    use_beam_search: bool = False
    beam_width: int | None = None
    length_penalty: float | None = None
    early_stopping: bool | Literal["never"] = False
    prompt_logprobs: int | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    store: bool | None = None
    service_tier: Literal["auto", "default"] | None = None
    safety_identifier: Label = None
    prompt_cache_key: Label = None
    truncate_prompt_tokens: int | None = None
    truncation_side: Literal["left", "right"] | None = None
    prompt_cache_retention: Unsupported = None
    logprob_token_ids: Unsupported = None
    stream_interval: int | None = None
    return_token_ids: bool = False
    return_tokens_as_token_ids: bool = False
    samplers: Unsupported = None
    repeat_last_n: Unsupported = None
    timings_per_token: Unsupported = None
    return_progress: Unsupported = None
    custom_logit_processor: Unsupported = None
    custom_params: Unsupported = None
    session_params: Unsupported = None
    lora: Unsupported = None
    logits_processors: list[str | ProcessorCall] | None = None
    kv_transfer_params: Unsupported = None
    ec_transfer_params: Unsupported = None
    vllm_xargs: dict[str, str | int | float | list[str | int | float]] | None = None
