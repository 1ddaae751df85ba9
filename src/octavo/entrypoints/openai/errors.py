"""Errors as OpenAI clients read them. What libraries say goes to the log, never to a client."""

from __future__ import annotations

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


def error_body(error: RequestError) -> ErrorBody:
    return ErrorBody(error_detail(error))


def error_response(error: RequestError) -> Response:
    headers = {}
    if isinstance(error, CapacityError):
        headers["Retry-After"] = str(error.retry_after_seconds)
    elif isinstance(error, EngineDead):
        headers["Retry-After"] = "1"
    elif isinstance(error, RequestTimeout):
        headers["Connection"] = "close"
    elif error.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return json_response(error_body(error), status=error.status, headers=headers)


def json_response(
    body: object, *, status: int = 200, headers: dict[str, str] | None = None
) -> Response:
    return Response(
        msgspec.json.encode(body), status, headers=headers, media_type="application/json"
    )
