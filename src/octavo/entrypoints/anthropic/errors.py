"""Errors as Anthropic's clients read them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

import msgspec

from octavo.entrypoints.openai.http.errors import ErrorDetail

_TYPES: Mapping[str, str] = MappingProxyType(
    {
        "internal_error": "api_error",
        "service_unavailable_error": "overloaded_error",
    }
)
"""Where its name is another one than OpenAI's."""

_TYPES_BY_STATUS: Mapping[int, str] = MappingProxyType({413: "request_too_large"})


class MessageError(msgspec.Struct, frozen=True, kw_only=True):
    """`param` and `code` are beyond Anthropic's own fields."""

    type: str
    message: str
    param: str | None = None
    code: str | None = None


class MessageErrorBody(msgspec.Struct, frozen=True, kw_only=True):
    type: Literal["error"] = "error"
    error: MessageError


def message_error(detail: ErrorDetail, status: int) -> MessageErrorBody:
    kind = _TYPES_BY_STATUS.get(status) or _TYPES.get(detail.type, detail.type)
    error = MessageError(type=kind, message=detail.message, param=detail.param, code=detail.code)
    return MessageErrorBody(error=error)
