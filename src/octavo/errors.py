"""The tree of errors that octavo raises on purpose. Knows nothing of HTTP beyond a status number.

Messages name the thing, what was given and what is allowed. `assert` is for our invariants only.
"""

from __future__ import annotations

import typing
from typing import Literal

RefusalCode = Literal[
    "rate_limit_requests",
    "rate_limit_tokens",
    "tenant_queue_full",
    "tenant_queue_tokens_full",
    "queue_full",
    "queue_tokens_full",
    "queue_wait_too_long",
    "deadline_unreachable",
]
"""Which bound refused a request at admission: its tenant's rates and queue, or the server's."""

REFUSAL_CODES: tuple[RefusalCode, ...] = typing.get_args(RefusalCode)


class OctavoError(Exception):
    """Root of all errors raised on purpose."""


class RequestError(OctavoError):
    """The client's fault. `param` names the field, `code` is a stable word for programs."""

    status = 400
    type = "invalid_request_error"

    def __init__(self, message: str, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.code = code


class InvalidRequest(RequestError):
    """A field is missing, malformed or out of range."""


class UnsupportedParameter(RequestError):
    """A field that is known but not supported here. Never accepted and ignored."""

    def __init__(self, message: str, *, param: str | None = None) -> None:
        super().__init__(message, param=param, code="unsupported_parameter")


class PromptTooLong(RequestError):
    """Prompt and answer do not fit the context length."""

    def __init__(self, message: str, *, param: str | None = None) -> None:
        super().__init__(message, param=param, code="context_length_exceeded")


class AuthenticationError(RequestError):
    status = 401
    type = "authentication_error"


class PermissionDenied(RequestError):
    status = 403
    type = "permission_error"


class NotFound(RequestError):
    """There is no such thing, or it is somebody else's."""

    status = 404
    type = "not_found_error"


class ModelNotFound(NotFound):
    """A model that is not served here."""


class RequestTimeout(RequestError):
    """The client took too long to send its request."""

    status = 408


class RequestTooLarge(RequestError):
    status = 413


class RequestAborted(RequestError):
    """Somebody ended it by its id, and there is nothing of it to show. Not to be tried again."""

    status = 410

    def __init__(self, message: str) -> None:
        super().__init__(message, code="request_aborted")


class HeadersTooLarge(RequestError):
    status = 431


class CapacityError(RequestError):
    """Refused because of load; the client may retry after `retry_after_seconds`."""

    status = 429
    type = "rate_limit_error"

    def __init__(
        self, message: str, *, code: str | None = None, retry_after_seconds: int = 1
    ) -> None:
        super().__init__(message, code=code)
        self.retry_after_seconds = retry_after_seconds


class DeadlineUnreachable(CapacityError):
    """Refused because its answer would come too late, as things are; another server may be free."""

    status = 503
    type = "service_unavailable_error"


class DeadlineExceeded(RequestError):
    """The request's deadline passed before its answer was complete."""

    status = 504
    type = "timeout_error"

    def __init__(self, message: str) -> None:
        super().__init__(message, code="deadline_exceeded")


class TooManyConnections(CapacityError):
    """Not even a connection is to be had."""

    status = 503
    type = "service_unavailable_error"


class ServerDraining(CapacityError):
    """The server is about to stop; another one will take the request."""

    status = 503
    type = "service_unavailable_error"


class EngineDead(RequestError):
    """The engine process is gone or stuck. The request was not finished."""

    status = 503
    type = "service_unavailable_error"


class ConfigError(OctavoError):
    """An option that cannot be honoured. Raised at start-up."""


class FetchError(OctavoError):
    """A model could not be found or fetched."""


class WeightError(OctavoError):
    """A bad model file: one line with file, tensor or key, and byte offset where known."""

    def __init__(self, file: object, what: str, *, offset: int | None = None) -> None:
        where = f"{file}" if offset is None else f"{file} (byte {offset})"
        super().__init__(f"{where}: {what}")


class TokenizerError(OctavoError):
    """The tokenizer data of a model file is missing or inconsistent."""


class TemplateError(RequestError):
    """A chat template refused the messages or broke a limit of its cage."""


class RecordingError(OctavoError):
    """A model used an abstract value in a way that a program cannot hold."""


class StopFailed(OctavoError):
    """What ends an answer cannot be looked for in its text any further."""
