"""What every route needs, in one frozen object, and how a route reads its request."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from starlette.requests import Request

from octavo.config.server import ServerConfig
from octavo.engine.client import EngineClient
from octavo.engine.input_processor import InputProcessor
from octavo.entrypoints.openai.open_requests import OpenRequests, Ticket
from octavo.entrypoints.openai.requests import GenerationRequest, RequestBody, decode_request
from octavo.errors import InvalidRequest, ModelNotFound, RequestTooLarge
from octavo.metrics.engine_metrics import EngineMetrics

Body = TypeVar("Body", bound=RequestBody)
Result = TypeVar("Result")

INLINE_BODY_BYTES = 16 * 1024
"""Bodies up to this are parsed and tokenised on the event loop: a thread would cost more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelInfo:
    """`names[0]` is the model's name, further ones are aliases. `created` is Unix seconds."""

    names: tuple[str, ...]
    max_model_len: int
    max_num_seqs: int
    created: int


@dataclass(frozen=True, slots=True)
class ServerContext:
    client: EngineClient
    inputs: InputProcessor
    model: ModelInfo
    options: ServerConfig
    metrics: EngineMetrics
    open_requests: OpenRequests


@dataclass(frozen=True, slots=True)
class Incoming:
    """One HTTP request: its context, who sent it, and how large it is."""

    context: ServerContext
    request: Request
    num_bytes: int

    @property
    def cache_scope(self) -> str:
        return str(self.request.state.tenant)

    def cache_salt(self, body: GenerationRequest) -> str:
        """Cached pages are shared within a tenant only, and there within the client's salt."""
        return f"{self.cache_scope}/{body.cache_salt}" if body.cache_salt else self.cache_scope

    def admit(self, body: GenerationRequest, num_sequences: int, response_id: str) -> Ticket:
        """Raises `InvalidRequest` beyond the bound of one request, else as `OpenRequests.admit`."""
        limit = self.context.options.max_sequences_per_request
        if num_sequences > limit:
            raise InvalidRequest(
                f"prompts x n is {num_sequences}; at most {limit} are allowed", param="n"
            )
        names = (response_id, body.request_id) if body.request_id else (response_id,)
        return self.context.open_requests.admit(num_sequences, names)

    async def work(self, function: Callable[[], Result]) -> Result:
        """Call `function`, beside the event loop when the request is large."""
        if self.num_bytes <= INLINE_BODY_BYTES:
            return function()
        return await asyncio.to_thread(function)


async def receive_body(request: Request, kind: type[Body]) -> tuple[Incoming, Body]:
    """The request and its decoded body, for a model that is served here. Raises `RequestError`."""
    context: ServerContext = request.app.state.context
    data = await _read(request, context.options.max_body_bytes)
    incoming = Incoming(context, request, len(data))
    body = await incoming.work(lambda: decode_request(data, kind))
    if body.model is not None and body.model not in context.model.names:
        raise unknown_model(body.model, context.model)
    return incoming, body


def unknown_model(name: str, model: ModelInfo) -> ModelNotFound:
    return ModelNotFound(
        f"the model {name[:64]!r} is not served here; {', '.join(model.names)} is",
        param="model",
        code="model_not_found",
    )


async def _read(request: Request, max_bytes: int) -> bytes:
    """The body, of which never more than one piece beyond the limit is held."""
    data = bytearray()
    declared = request.headers.get("content-length", "")
    num_bytes = int(declared) if declared.isdecimal() and len(declared) < 19 else 0
    if num_bytes <= max_bytes:
        async for piece in request.stream():
            data += piece
            num_bytes = len(data)
            if num_bytes > max_bytes:
                break
    if num_bytes > max_bytes:
        raise RequestTooLarge(
            f"the body has {num_bytes} bytes or more; at most {max_bytes} allowed"
        )
    return bytes(data)


def new_id(prefix: str) -> str:
    return f"{prefix}-{uuid.uuid4().hex}"
