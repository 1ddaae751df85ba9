"""Errors as OpenAI clients read them. What libraries say goes to the log, never to a client."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from starlette.responses import Response

from octavo.errors import CapacityError, EngineDead, RequestError, RequestTimeout


class ErrorDetail(msgspec.Struct, frozen=True):
    message: str
    type: str
    param: str | None = None
    code: str | None = None


class ErrorBody(msgspec.Struct, frozen=True):
    error: ErrorDetail


INTERNAL_ERROR = ErrorBody(
    ErrorDetail(
        message="the server failed on this request; it has been logged", type="internal_error"
    )
)


def error_detail(error: RequestError) -> ErrorDetail:
    return ErrorDetail(error.message, error.type, error.param, error.code)


def openai_error(detail: ErrorDetail, status: int) -> ErrorBody:  # noqa: ARG001  (an `ErrorShape`)
    return ErrorBody(detail)


ErrorShape = Callable[[ErrorDetail, int], msgspec.Struct]
"""How a protocol says what is wrong, given the status of the answer, or 0 in a stream."""


def error_response(error: RequestError, shape: ErrorShape = openai_error) -> Response:
    headers = {}
    if isinstance(error, CapacityError):
        headers["Retry-After"] = str(error.retry_after_seconds)
    elif isinstance(error, EngineDead):
        headers["Retry-After"] = "1"
    elif isinstance(error, RequestTimeout):
        headers["Connection"] = "close"
    elif error.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    body = shape(error_detail(error), error.status)
    return json_response(body, status=error.status, headers=headers)


def json_response(
    body: object, *, status: int = 200, headers: dict[str, str] | None = None
) -> Response:
    return Response(
        msgspec.json.encode(body), status, headers=headers, media_type="application/json"
    )
