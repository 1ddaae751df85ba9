"""From the bytes of a request to its body, and how a bad one is refused. Knows no engine."""

from __future__ import annotations

import difflib
import re
import typing
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Literal, TypeVar

import msgspec

from octavo.entrypoints.openai.bodies.body import RequestBody, Unsupported
from octavo.entrypoints.openai.bodies.strict_json import MAX_DEPTH, Json, parse_json
from octavo.errors import InvalidRequest, UnsupportedParameter

Request = TypeVar("Request", bound="RequestBody")

MAX_GIVEN_CHARS = 60
_PATH = re.compile(r" - at `(key in )?\$(\.?(\w+)[^`]*)?`$")
_UNKNOWN_FIELD = re.compile(r"Object contains unknown field `([^`]*)`")

NEUTRAL_VALUES: Mapping[str, tuple[Json, ...]] = MappingProxyType(
    {
        "function_call": ("none", "auto"),
        "verbosity": ("medium",),
    }
)
"""Values of unsupported fields that ask for nothing."""


ALIASES: Mapping[str, str] = MappingProxyType(
    {
        "repeat_penalty": "repetition_penalty",
        "n_predict": "max_tokens",
        "return_tokens": "return_token_ids",
        "sampling_seed": "seed",
        "no_stop_trim": "include_stop_str_in_output",
        "rid": "request_id",
        "separate_reasoning": "include_reasoning",
    }
)
"""Names of llama.cpp and SGLang for fields that mean the same."""


@lru_cache(maxsize=64)
def unsupported_fields(kind: type[RequestBody]) -> frozenset[str]:
    return frozenset(
        field.name for field in msgspec.structs.fields(kind) if field.type == Unsupported
    )


def decode_request(body: bytes, kind: type[Request], max_depth: int = MAX_DEPTH) -> Request:
    """One request body as `kind`. Raises `InvalidRequest` or `UnsupportedParameter`."""
    if not body:
        raise InvalidRequest("the body is empty; a JSON object is required")
    value = parse_json(body, max_depth)
    if not isinstance(value, dict):
        raise InvalidRequest(f"the body is {_given(value)}; a JSON object is required")
    value = _without_aliases(value, kind)
    given = _without_nulls(value, kind)
    try:
        request = msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        raise _refusal(str(error), given, kind) from None
    _refuse_unsupported(request, value)
    return request


def _without_aliases(value: dict[str, Json], kind: type[RequestBody]) -> dict[str, Json]:
    """With our names of fields that are known by others. Raises `InvalidRequest` for both."""
    for alias in ALIASES.keys() & value.keys():
        name = ALIASES[alias]
        if name in kind.__struct_fields__:
            if value.get(name) is not None and value[alias] is not None:
                raise InvalidRequest(f"{alias} and {name} mean the same; give one", param=alias)
            value = {**value, name: value[alias] if value[alias] is not None else value.get(name)}
            del value[alias]
    return value


def _without_nulls(value: dict[str, Json], kind: type[RequestBody]) -> dict[str, Json]:
    """Clients send null for an optional field that they leave open, whatever its type."""
    optional = _optional_fields(kind)
    return {name: item for name, item in value.items() if item is not None or name not in optional}


@lru_cache(maxsize=64)
def _optional_fields(kind: type[RequestBody]) -> frozenset[str]:
    return frozenset(field.name for field in msgspec.structs.fields(kind) if not field.required)


def _refusal(message: str, value: dict[str, Json], kind: type[RequestBody]) -> InvalidRequest:
    """msgspec's complaint with the parameter named and what was given for it."""
    path = _PATH.search(message)
    unknown = _UNKNOWN_FIELD.search(message)
    if unknown and path is None:
        return _unknown(unknown[1][:64], kind)
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
    for name in value.keys() & unsupported_fields(type(request)):
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
