"""What every route needs, in one frozen object, and how a route reads its request."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from starlette.requests import Request

from octavo.config.server import ServerConfig
from octavo.config.tenants import TenantLimits, Tenants
from octavo.core.sampling_params import SamplingParams
from octavo.engine.client import EngineClient
from octavo.engine.input_processor import NO_ANSWER, InputProcessor
from octavo.entrypoints.openai.admission import TIMEOUT_HEADER, deadline_of, demand_of, priority_of
from octavo.entrypoints.openai.body import EngineBody, RequestBody
from octavo.entrypoints.openai.open_requests import OpenRequests, Ticket
from octavo.entrypoints.openai.requests import decode_request
from octavo.errors import InvalidRequest, ModelNotFound, RequestTooLarge
from octavo.metrics.engine_metrics import EngineMetrics
from octavo.scheduler.admission.admission import Demand

Body = TypeVar("Body", bound=RequestBody)
Result = TypeVar("Result")

INLINE_BODY_BYTES = 16 * 1024
"""Bodies up to this are parsed and tokenised on the event loop: a thread would cost more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelInfo:
    """`names[0]` is the model's name, further ones are aliases. `created` is Unix seconds.
    `takes_priority`: the scheduling policy makes something of it."""

    names: tuple[str, ...]
    max_model_len: int
    max_num_seqs: int
    created: int
    takes_priority: bool = False


@dataclass(frozen=True, slots=True)
class ServerContext:
    client: EngineClient
    inputs: InputProcessor
    model: ModelInfo
    options: ServerConfig
    metrics: EngineMetrics
    tenants: Tenants
    open_requests: OpenRequests


@dataclass(frozen=True, slots=True)
class Incoming:
    """One HTTP request: its context, who sent it, when, and how large it is.

    `arrival_time` is time.time() seconds.
    """

    context: ServerContext
    request: Request
    num_bytes: int
    arrival_time: float

    @property
    def tenant(self) -> str:
        return str(self.request.state.tenant)

    @property
    def limits(self) -> TenantLimits:
        return self.context.tenants.limits(self.tenant)

    def cache_salt(self, body: EngineBody) -> str:
        """Cached pages are shared within a tenant only, or among those that share theirs, and there
        within the client's salt."""
        scope = "" if self.limits.cache == "shared" else self.tenant
        return f"{scope}/{body.cache_salt}" if body.cache_salt else scope

    def priority(self, body: EngineBody) -> int:
        return priority_of(body.priority, self.limits, is_used=self.context.model.takes_priority)

    def deadline(self, body: EngineBody) -> float | None:
        """In time.time() seconds."""
        header = self.request.headers.get(TIMEOUT_HEADER)
        return deadline_of(
            self.arrival_time, body.timeout, header, self.context.options.request_timeout
        )

    async def admit(
        self,
        body: EngineBody,
        params: SamplingParams,
        prompts: Sequence[object],
        response_id: str,
    ) -> Ticket:
        """Raises `InvalidRequest` beyond the bound of one request, else as `OpenRequests.admit`."""
        num_sequences = params.num_sequences * len(prompts)
        limit = self.context.options.max_sequences_per_request
        if num_sequences > limit:
            raise InvalidRequest(
                f"prompts x n (or best_of, or beam_width) is {num_sequences}; at most {limit} are"
                " allowed",
                param="n",
            )
        deadline = self.deadline(body)
        demand = await self.work(lambda: demand_of(prompts, params, deadline))
        return self._admit(body, demand, response_id)

    async def admit_texts(
        self, body: EngineBody, texts: Sequence[object], response_id: str
    ) -> Ticket:
        """For texts that become vectors. Not all of them are in the engine at the same time.

        Raises as `admit`.
        """
        options = self.context.options
        if len(texts) > options.max_inputs_per_request:
            raise InvalidRequest(
                f"the request has {len(texts)} texts; at most {options.max_inputs_per_request} are"
                " allowed"
            )
        deadline = self.deadline(body)
        demand = await self.work(lambda: demand_of(texts, NO_ANSWER, deadline))
        num_sequences = min(demand.num_sequences, options.max_sequences_per_request)
        return self._admit(body, replace(demand, num_sequences=num_sequences), response_id)

    def _admit(self, body: EngineBody, demand: Demand, response_id: str) -> Ticket:
        names = (response_id, body.request_id) if body.request_id else (response_id,)
        return self.context.open_requests.admit(self.tenant, demand, names)

    async def work(self, function: Callable[[], Result]) -> Result:
        """Call `function`, beside the event loop when the request is large."""
        if self.num_bytes <= INLINE_BODY_BYTES:
            return function()
        return await asyncio.to_thread(function)


async def receive_body(request: Request, kind: type[Body]) -> tuple[Incoming, Body]:
    """The request and its decoded body, for a model that is served here. Raises `RequestError`.

    What asks for an answer is not even read where no request would be admitted.
    """
    context: ServerContext = request.app.state.context
    arrival_time = time.time()
    if issubclass(kind, EngineBody):
        context.open_requests.check(str(request.state.tenant))
    data = await _read(request, context.options.max_body_bytes)
    incoming = Incoming(context, request, len(data), arrival_time)
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
