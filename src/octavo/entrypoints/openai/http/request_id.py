"""Every answer, errors too, carries `X-Request-Id`: the client's own, or one of ours.

Ours are unguessable; a client's is a label only, and two requests may carry the same.
"""

from __future__ import annotations

import re
import uuid

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import Message, Receive, Scope, Send

REQUEST_ID_HEADER = "X-Request-Id"
_ALLOWED = re.compile(r"[\x21-\x7e]{1,128}")
_KEY = "request_id"


class Application(Starlette):
    """A Starlette application that names its requests."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await super().__call__(scope, receive, send)
            return
        state = scope.setdefault("state", {})
        given = Headers(scope=scope).get(REQUEST_ID_HEADER, "")
        state[_KEY] = given if is_request_id(given) else uuid.uuid4().hex

        async def send_named(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)[REQUEST_ID_HEADER] = state[_KEY]
            await send(message)

        await super().__call__(scope, receive, send_named)


def is_request_id(text: str) -> bool:
    """Whether it can stand in a header: 1 to 128 visible characters of ASCII."""
    return _ALLOWED.fullmatch(text) is not None


def request_id_of(request: Request) -> str:
    """What its answer carries; "" for a line of a batch."""
    return str(getattr(request.state, _KEY, ""))


def name_request(request: Request, name: str) -> None:
    """What a body says; a header, if there is one, has said it already."""
    if REQUEST_ID_HEADER not in request.headers and is_request_id(name):
        setattr(request.state, _KEY, name)
