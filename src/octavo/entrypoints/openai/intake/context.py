"""What every route needs, in one frozen object, and how a route reads its request."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeVar

from msgspec import structs
from starlette.requests import Request

from octavo.config.engine import EngineConfig
from octavo.config.server import ServerConfig
from octavo.config.tenants import TenantLimits, Tenants
from octavo.core.request import EngineRequest
from octavo.core.sampling_params import SamplingParams
from octavo.engine.client import EngineClient
from octavo.engine.input_processor import NO_ANSWER, InputProcessor
from octavo.engine.step_log import StepLog
from octavo.entrypoints.openai.bodies.body import EngineBody, RequestBody
from octavo.entrypoints.openai.bodies.decode import decode_request
from octavo.entrypoints.openai.bodies.limits import check_limits
from octavo.entrypoints.openai.http.request_id import name_request, request_id_of
from octavo.entrypoints.openai.intake.admission import (
    TIMEOUT_HEADER,
    deadline_of,
    demand_of,
    priority_of,
)
from octavo.entrypoints.openai.intake.entries import Entry
from octavo.entrypoints.openai.intake.open_requests import OpenRequests, Ticket
from octavo.errors import InvalidRequest, ModelNotFound, RequestTimeout, RequestTooLarge
from octavo.metrics.engine_metrics import EngineMetrics
from octavo.parsing.registry import NO_DIALECTS, Dialects
from octavo.scheduler.admission.demand import Demand

Body = TypeVar("Body", bound=RequestBody)
Result = TypeVar("Result")

NUM_WORKERS = 2
"""Threads beside the event loop. More would only keep the loop from getting its turn."""
INLINE_BODY_BYTES = 16 * 1024
"""Bodies up to this are parsed and tokenised on the event loop: a thread would cost more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelInfo:
    """`names[0]` is the model's name, further ones are aliases. `created` is Unix seconds.
    `takes_priority`: the scheduling policy makes something of it. `dialects` are how the model
    writes calls and reasoning. `config` are the engine's options, all decided."""

    names: tuple[str, ...]
    max_model_len: int
    max_num_seqs: int
    created: int
    config: EngineConfig
    takes_priority: bool = False
    dialects: Dialects = NO_DIALECTS


@dataclass(frozen=True, slots=True)
class ServerContext:
    client: EngineClient
    inputs: InputProcessor
    model: ModelInfo
    options: ServerConfig
    metrics: EngineMetrics
    tenants: Tenants
    open_requests: OpenRequests
    steps: StepLog
    workers: Executor = field(default_factory=lambda: ThreadPoolExecutor(NUM_WORKERS))


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
    def entry(self) -> Entry | None:
        """Of a line of a batch: nobody waits for its answer, and it steps back behind others."""
        entry: Entry | None = getattr(self.request.state, "entry", None)
        return entry

    @property
    def limits(self) -> TenantLimits:
        return self.context.tenants.limits(self.tenant)

    def cache_salt(self, body: EngineBody) -> str:
        """Cached pages are shared within a tenant only, or among those that share theirs, and there
        within the client's salt."""
        scope = "" if self.limits.cache == "shared" else self.tenant
        return f"{scope}/{body.cache_salt}" if body.cache_salt else scope

    def priority(self, body: EngineBody) -> int:
        """What the client asks for; of a line of a batch the least urgent that its tenant has."""
        asked = priority_of(body.priority, self.limits, is_used=self.context.model.takes_priority)
        return asked if self.entry is None else self.limits.max_priority

    def deadline(self, body: EngineBody) -> float | None:
        """In time.time() seconds."""
        header = self.request.headers.get(TIMEOUT_HEADER)
        default = self.context.options.request_timeout if self.entry is None else None
        return deadline_of(self.arrival_time, body.timeout, header, default)

    async def admit(
        self,
        body: EngineBody,
        params: SamplingParams,
        prompts: Sequence[object],
        response_id: str,
    ) -> Ticket:
        """Raises `InvalidRequest` beyond the bound of one request, else as `OpenRequests.admit`.

        A line of a batch is not refused for want of room, but waits.
        """
        num_sequences = params.num_sequences * len(prompts)
        limit = self.context.options.max_sequences_per_request
        if num_sequences > limit:
            raise InvalidRequest(
                f"prompts x n (or best_of, or beam_width) is {num_sequences}; at most {limit} are"
                " allowed",
                param="n",
            )
        deadline, priority = self.deadline(body), self.priority(body)
        demand = await self.work(lambda: demand_of(prompts, params, deadline, priority))
        return await self._admit(body, demand, response_id)

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
                " allowed (see --max-inputs-per-request)"
            )
        deadline, priority = self.deadline(body), self.priority(body)
        demand = await self.work(lambda: demand_of(texts, NO_ANSWER, deadline, priority))
        num_sequences = min(demand.num_sequences, options.max_sequences_per_request)
        demand = replace(demand, num_sequences=num_sequences)
        return await self._admit(body, demand, response_id)

    async def _admit(self, body: EngineBody, demand: Demand, response_id: str) -> Ticket:
        labels = (request_id_of(self.request), body.request_id)
        names = {response_id, *filter(None, labels)}
        if self.entry is None:
            return self.context.open_requests.admit(self.tenant, demand, names)
        ticket = await self.context.open_requests.admit_patiently(self.tenant, demand, names)
        self.entry.end()
        return ticket

    async def work(
        self, function: Callable[[], Result], *, runs_foreign_code: bool = False
    ) -> Result:
        """Call `function`, beside the event loop when the request is large, or when what it runs
        came with a model: a template may take its whole allowance."""
        if self.num_bytes <= INLINE_BODY_BYTES and not runs_foreign_code:
            return function()
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.context.workers, function)


class Scheduling(NamedTuple):
    """What the engine is to know of a request beyond its tokens."""

    tenant: str
    tenant_weight: float
    priority: int
    deadline: float | None

    @classmethod
    def of(cls, incoming: Incoming, body: EngineBody) -> Scheduling:
        return cls(
            incoming.tenant,
            incoming.limits.weight,
            incoming.priority(body),
            incoming.deadline(body),
        )

    def mark(self, request: EngineRequest) -> EngineRequest:
        return structs.replace(request, **self._asdict())


async def receive_body(request: Request, kind: type[Body]) -> tuple[Incoming, Body]:
    """The request and its decoded body, for a model that is served here. Raises `RequestError`.

    What asks for an answer is not even read where no request would be admitted.
    """
    if issubclass(kind, EngineBody) and not hasattr(request.state, "entry"):
        context: ServerContext = request.app.state.context
        context.open_requests.check(str(request.state.tenant))
    return await _receive(request, kind)


async def receive_counted(request: Request, kind: type[Body]) -> tuple[Incoming, Body]:
    """As `receive_body`, for what costs time beside the engine, as counting tokens does: it counts
    among its tenant's requests, and is not read where they are too many."""
    context: ServerContext = request.app.state.context
    context.open_requests.count(str(request.state.tenant))
    return await _receive(request, kind)


async def _receive(request: Request, kind: type[Body]) -> tuple[Incoming, Body]:
    context: ServerContext = request.app.state.context
    arrival_time = time.time()
    data = await _read(request, context.options)
    incoming = Incoming(context, request, len(data), arrival_time)
    depth = context.options.max_json_depth
    body = await incoming.work(lambda: decode_request(data, kind, depth))
    check_limits(body, context.options)
    if body.request_id is not None:
        name_request(request, body.request_id)
    if body.model is not None and body.model not in context.model.names:
        raise unknown_model(body.model, context.model)
    return incoming, body


def unknown_model(name: str, model: ModelInfo) -> ModelNotFound:
    return ModelNotFound(
        f"the model {name[:64]!r} is not served here; {', '.join(model.names)} is",
        param="model",
        code="model_not_found",
    )


async def _read(request: Request, options: ServerConfig) -> bytes:
    """The body, of which never more than one piece beyond the limit is held."""
    data = bytearray()
    max_bytes = options.max_body_bytes
    declared = request.headers.get("content-length", "")
    num_bytes = int(declared) if declared.isdecimal() and len(declared) < 19 else 0
    if num_bytes <= max_bytes:
        try:
            async with asyncio.timeout(options.body_timeout_seconds):
                async for piece in request.stream():
                    data += piece
                    num_bytes = len(data)
                    if num_bytes > max_bytes:
                        break
        except TimeoutError:
            raise RequestTimeout(
                f"{len(data)} bytes of the body have come in {options.body_timeout_seconds:g} "
                "seconds, and not all; send it faster"
            ) from None
    if num_bytes > max_bytes:
        raise RequestTooLarge(
            f"the body has {num_bytes} bytes or more; at most {max_bytes} allowed"
        )
    return bytes(data)
