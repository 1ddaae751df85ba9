"""The request bodies that the server accepts, field by field, and how a bad one is refused.

A field that is not here is unknown: 400. Null means that an optional field is not given. A field of
type `Unsupported` is known, and refused unless its value asks for nothing. `Label` fields mean
nothing to an engine by their own definition. Knows no engine.
"""

from __future__ import annotations

import difflib
import re
import typing
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal, TypeVar, cast

import msgspec

from octavo.core.repetition_detection import RepetitionDetection
from octavo.entrypoints.openai.strict_json import Json, parse_json
from octavo.errors import InvalidRequest, UnsupportedParameter

Request = TypeVar("Request", bound="RequestBody")
Unsupported = Annotated[Any, msgspec.Meta(description="Not supported; only null is accepted.")]
Label = str | None

MAX_GIVEN_CHARS = 60
_PATH = re.compile(r" - at `(key in )?\$(\.?(\w+)[^`]*)?`$")
_UNKNOWN_FIELD = re.compile(r"Object contains unknown field `([^`]*)`")


class StreamOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


class ResponseFormat(msgspec.Struct, frozen=True):
    type: str


class RequestBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every body may carry."""

    model: str | None = None
    user: Label = None
    metadata: dict[str, str] | None = None
    request_id: Label = None


class GenerationRequest(RequestBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
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
    cache_salt: str | None = None
    store: bool | None = None
    service_tier: Literal["auto", "default"] | None = None
    safety_identifier: Label = None
    prompt_cache_key: Label = None
    response_format: ResponseFormat | None = None
    priority: int | None = None
    timeout: float | None = None
    structured_outputs: Unsupported = None
    guided_json: Unsupported = None
    guided_regex: Unsupported = None
    guided_choice: Unsupported = None
    guided_grammar: Unsupported = None
    guided_decoding_backend: Unsupported = None
    guided_whitespace_pattern: Unsupported = None
    truncate_prompt_tokens: Unsupported = None
    truncation_side: Unsupported = None
    prompt_cache_retention: Unsupported = None
    logprob_token_ids: Unsupported = None
    stream_interval: Unsupported = None
    return_token_ids: Unsupported = None
    return_tokens_as_token_ids: Unsupported = None
    logits_processors: Unsupported = None
    kv_transfer_params: Unsupported = None
    ec_transfer_params: Unsupported = None
    vllm_xargs: Unsupported = None


class CompletionRequest(GenerationRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`POST /v1/completions`."""

    prompt: str | list[str | int | list[int]]
    echo: bool = False
    logprobs: int | None = None
    add_special_tokens: bool = True
    suffix: Unsupported = None
    prompt_embeds: Unsupported = None

    @property
    def prompts(self) -> list[str | list[int]]:
        """The prompts as a list: of texts, or of token ids. Raises `InvalidRequest`."""
        prompt = self.prompt
        if isinstance(prompt, str):
            return [prompt]
        kinds = {type(item) for item in prompt}
        if kinds == {int}:
            return [cast(list[int], prompt)]
        if kinds in ({str}, {list}):
            return cast(list[str | list[int]], prompt)
        given = "empty" if not kinds else "a mixed list"
        raise InvalidRequest(
            f"prompt is {given}; a string, a list of strings, a list of token ids or a list of "
            "lists of token ids is allowed, none of the lists empty",
            param="prompt",
        )


class ChatRequest(GenerationRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`POST /v1/chat/completions`. The template decides what the messages' own fields mean."""

    messages: list[dict[str, Any]]
    logprobs: bool | None = None
    top_logprobs: int | None = None
    max_completion_tokens: int | None = None
    add_generation_prompt: bool = True
    chat_template_kwargs: dict[str, Any] | None = None
    tool_choice: Unsupported = None
    tools: Unsupported = None
    parallel_tool_calls: Unsupported = None
    functions: Unsupported = None
    function_call: Unsupported = None
    modalities: list[Literal["text"]] | None = None
    audio: Unsupported = None
    prediction: Unsupported = None
    reasoning_effort: Unsupported = None
    include_reasoning: Unsupported = None
    thinking_token_budget: Unsupported = None
    verbosity: Unsupported = None
    web_search_options: Unsupported = None
    mm_processor_kwargs: Unsupported = None
    media_io_kwargs: Unsupported = None
    chat_template: Unsupported = None
    documents: Unsupported = None
    continue_final_message: Unsupported = None
    add_special_tokens: Unsupported = None
    echo: Unsupported = None


class TokenizeRequest(RequestBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`POST /tokenize`: exactly one of `prompt` and `messages`."""

    prompt: str | None = None
    messages: list[dict[str, Any]] | None = None
    add_special_tokens: bool = True
    add_generation_prompt: bool = True
    chat_template_kwargs: dict[str, Any] | None = None
    return_token_strs: bool = False


class DetokenizeRequest(RequestBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`POST /detokenize`."""

    tokens: list[int]


class AbortBody(RequestBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`POST /abort_requests`: ids as responses carry them, or as clients gave in `request_id`."""

    request_ids: list[str]


UNSUPPORTED_FIELDS: dict[type[RequestBody], frozenset[str]] = {
    kind: frozenset(
        field.name for field in msgspec.structs.fields(kind) if field.type == Unsupported
    )
    for kind in (CompletionRequest, ChatRequest, TokenizeRequest, DetokenizeRequest, AbortBody)
}

NEUTRAL_VALUES: Mapping[str, tuple[Json, ...]] = MappingProxyType(
    {
        "stream_interval": (1,),
        "tool_choice": ("none", "auto"),
        "function_call": ("none", "auto"),
        "parallel_tool_calls": (True,),
        "include_reasoning": (True,),
        "verbosity": ("medium",),
    }
)
"""Values of unsupported fields that ask for nothing. Tools are refused where they are declared, so
that what is said about their use means nothing here."""


def decode_request(body: bytes, kind: type[Request]) -> Request:
    """One request body as `kind`. Raises `InvalidRequest` or `UnsupportedParameter`."""
    if not body:
        raise InvalidRequest("the body is empty; a JSON object is required")
    value = parse_json(body)
    if not isinstance(value, dict):
        raise InvalidRequest(f"the body is {_given(value)}; a JSON object is required")
    given = _without_nulls(value, kind)
    try:
        request = msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        raise _refusal(str(error), given, kind) from None
    _refuse_unsupported(request, value)
    return request


def _without_nulls(value: dict[str, Json], kind: type[RequestBody]) -> dict[str, Json]:
    """Clients send null for an optional field that they leave open, whatever its type."""
    optional = {field.name for field in msgspec.structs.fields(kind) if not field.required}
    return {name: item for name, item in value.items() if item is not None or name not in optional}


def _refusal(message: str, value: dict[str, Json], kind: type[RequestBody]) -> InvalidRequest:
    """msgspec's complaint with the parameter named and what was given for it."""
    if unknown := _UNKNOWN_FIELD.search(message):
        return _unknown(unknown[1][:64], kind)
    path = _PATH.search(message)
    reason = message if path is None else message[: path.start()]
    reason = reason[:1].lower() + reason[1:]
    if path is None or path[3] is None:
        missing = re.search(r"required field `(\w+)`", message)
        return InvalidRequest(reason, param=missing and missing[1])
    param = path[3]
    where = path[2].lstrip(".")
    given = _given(value.get(param))
    words = _words(typing.get_type_hints(kind).get(param))
    allowed = f"; {' or '.join(words)} is allowed" if words else ""
    return InvalidRequest(f"{where}: {reason}; {param} is {given}{allowed}", param=param)


def _unknown(name: str, kind: type[RequestBody]) -> InvalidRequest:
    near = difflib.get_close_matches(name, kind.__struct_fields__, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return InvalidRequest(f"unknown parameter {name!r}{hint}", param=name)


def _words(hint: object) -> list[str]:
    """The words that a field may have, if it takes only certain ones."""
    if typing.get_origin(hint) is Literal:
        return [repr(word) for word in typing.get_args(hint)]
    return [word for part in typing.get_args(hint) for word in _words(part)]


def _given(value: Json) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= MAX_GIVEN_CHARS else text[:MAX_GIVEN_CHARS] + "..."


def _refuse_unsupported(request: RequestBody, value: dict[str, Json]) -> None:
    for name in value.keys() & UNSUPPORTED_FIELDS[type(request)]:
        if value[name] is not None and not _is_neutral(name, value[name]):
            raise UnsupportedParameter(
                f"{name} is {_given(value[name])}; this parameter is not supported",
                param=name,
                code="unsupported_parameter",
            )


def neutral_values(name: str) -> tuple[Json, ...]:
    """What asks for nothing of an unsupported field: clients send it as a spelled-out default."""
    return (False, [], {}, "", *NEUTRAL_VALUES.get(name, ()))


def _is_neutral(name: str, value: Json) -> bool:
    return any(
        type(value) is type(neutral) and value == neutral for neutral in neutral_values(name)
    )
