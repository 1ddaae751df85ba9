"""What one route of the server is: its method and path, who answers it, and what goes in and out.

Routing, authentication, the OpenAPI document and `docs/api.md` are all made from these rows. Knows
no route.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from octavo.entrypoints.openai.bodies.body import RequestBody
from octavo.entrypoints.openai.http.errors import ErrorBody, ErrorShape, openai_error

Handler = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """`request` is the struct of the JSON body, None if no body is read. `answer` is the type of a
    JSON answer, None if there is none. `event` is the struct of each event where a request may
    ask for a stream, with an end mark if it `has_end_mark`. `error` is the struct of a
    refusal, and `error_shape` makes it.
    `text_type` is the media type of an answer that is no JSON, "" if there is none. Fields in
    braces in `path` are as Starlette's. `summary` is one line for readers. Unless it `is_public`,
    an endpoint asks for the key. `query` are the parameters of its query, by name. `form` is the
    struct of a body that is multipart/form-data. `statuses` are those of errors beyond what its
    kind has by itself.
    """

    method: str
    path: str
    handler: Handler
    summary: str
    request: type[RequestBody] | None = None
    query: tuple[tuple[str, object], ...] = ()
    form: type[msgspec.Struct] | None = None
    answer: object = None
    text_type: str = ""
    event: type | None = None
    has_end_mark: bool = True
    error: type[msgspec.Struct] = ErrorBody
    error_shape: ErrorShape = openai_error
    is_public: bool = False
    statuses: tuple[int, ...] = ()
