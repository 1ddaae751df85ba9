"""Answers one line by the same function as a request over HTTP, without a socket.

What differs: nobody waits for the answer, so it waits for room where a client would be refused, and
an engine that dies is outlived. Knows no store.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from types import MappingProxyType
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response

from octavo.engine.client import EngineClient
from octavo.entrypoints.openai.batches.lines import LineRecord, LineResponse, RequestLine
from octavo.entrypoints.openai.bodies.ids import new_id
from octavo.entrypoints.openai.chat.routes import create_chat_completion
from octavo.entrypoints.openai.completions.routes import create_completion
from octavo.entrypoints.openai.http.errors import INTERNAL_ERROR, error_response, json_response
from octavo.entrypoints.openai.intake.context import ServerContext
from octavo.entrypoints.openai.intake.entries import Entry, Interrupted
from octavo.entrypoints.openai.pooling.embeddings import create_embeddings
from octavo.entrypoints.openai.pooling.similarity import create_rerank, create_score
from octavo.entrypoints.openai.responses_api.routes import create_response
from octavo.errors import (
    CapacityError,
    DeadlineUnreachable,
    EngineDead,
    InvalidRequest,
    RequestError,
    UnsupportedParameter,
)

logger = logging.getLogger(__name__)

Endpoints = Mapping[str, Callable[[Request], Awaitable[Response]]]

ENDPOINTS: Endpoints = MappingProxyType(
    {
        "/v1/chat/completions": create_chat_completion,
        "/v1/completions": create_completion,
        "/v1/embeddings": create_embeddings,
        **dict.fromkeys(("/score", "/v1/score"), create_score),
        **dict.fromkeys(("/rerank", "/v1/rerank", "/v2/rerank"), create_rerank),
        "/v1/responses": create_response,
    }
)
MAX_ENGINE_DEATHS = 3
"""A line that so many engines died of is not tried again."""

HEALTH_POLL_SECONDS = 0.5


class _Peek(msgspec.Struct):
    """What must be known of a body before it is sent on its way, which reads it properly."""

    stream: bool | None = None


class LineCaller:
    """One per application."""

    def __init__(self, app: Starlette, endpoints: Endpoints = ENDPOINTS) -> None:
        context: ServerContext = app.state.context
        self._app = app
        self._endpoints = endpoints
        self._client: EngineClient = context.client
        self._open_requests = context.open_requests
        self._suspects = asyncio.Lock()

    async def answer(self, line: RequestLine, tenant: str, entry: Entry) -> LineRecord:
        """What came of a line, whatever it was. Raises `Interrupted` when the server stops."""
        response = await self._respond(line, tenant, entry)
        return LineRecord(
            custom_id=line.custom_id,
            response=LineResponse(
                status_code=response.status_code,
                request_id=new_id("req_"),
                body=msgspec.Raw(bytes(response.body)),
            ),
        )

    async def _respond(self, line: RequestLine, tenant: str, entry: Entry) -> Response:
        try:
            self._check(line)
            return await self._outliving_engines(line, tenant, entry)
        except RequestError as error:
            return error_response(error)
        except Interrupted:
            raise
        except Exception:
            logger.exception("a line of a batch failed")
            return json_response(INTERNAL_ERROR, status=500)

    async def _outliving_engines(self, line: RequestLine, tenant: str, entry: Entry) -> Response:
        """Lines that an engine died with come back one at a time, so that the one that kills
        engines does not take the others with it."""
        try:
            return await self._when_admitted(line, tenant, entry)
        except EngineDead:
            await self._until_healthy()
        async with self._suspects:
            for _ in range(MAX_ENGINE_DEATHS - 2):
                try:
                    return await self._when_admitted(line, tenant, entry)
                except EngineDead:
                    await self._until_healthy()
            return await self._when_admitted(line, tenant, entry)

    async def _when_admitted(self, line: RequestLine, tenant: str, entry: Entry) -> Response:
        while True:
            try:
                return await self._call(line, tenant, entry)
            except DeadlineUnreachable:
                raise
            except CapacityError as refusal:
                if self._open_requests.is_draining:
                    raise Interrupted from None
                await asyncio.sleep(refusal.retry_after_seconds)

    async def _call(self, line: RequestLine, tenant: str, entry: Entry) -> Response:
        receive = _Body(bytes(line.body)).receive
        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": line.method,
            "scheme": "http",
            "path": line.url,
            "root_path": "",
            "query_string": b"",
            "headers": [(b"content-type", b"application/json")],
            "app": self._app,
            "state": {"tenant": tenant, "entry": entry},
        }
        return await self._endpoints[line.url](Request(scope, receive))

    async def _until_healthy(self) -> None:
        while not self._open_requests.is_draining:
            try:
                await self._client.check_health()
            except EngineDead:
                await asyncio.sleep(HEALTH_POLL_SECONDS)
            else:
                return
        raise Interrupted

    def _check(self, line: RequestLine) -> None:
        """Raises `InvalidRequest` or `UnsupportedParameter`."""
        if line.url not in self._endpoints:
            allowed = ", ".join(self._endpoints)
            raise InvalidRequest(
                f"url is {line.url[:64]!r}; one of {allowed} is allowed",
                param="url",
                code="bad_url",
            )
        try:
            stream = msgspec.json.decode(line.body, type=_Peek).stream
        except (msgspec.DecodeError, RecursionError):
            return  # whoever reads it properly will say what is wrong
        if stream:
            raise UnsupportedParameter(
                "stream is true; lines of a batch are answered whole",
                param="stream",
                code="unsupported_parameter",
            )


class _Body:
    """A body that comes in one piece, of a client that stays."""

    def __init__(self, body: bytes) -> None:
        self._body: bytes | None = body

    async def receive(self) -> MutableMapping[str, Any]:
        if self._body is None:
            await asyncio.get_running_loop().create_future()  # until cancelled
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}
