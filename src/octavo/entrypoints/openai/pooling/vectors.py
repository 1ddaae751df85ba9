"""The vectors of one HTTP request's texts: admission, tokenising, and a bounded number of them in
the engine at a time. Knows no wire form of what is made of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from octavo.core.pooling import PoolingParams
from octavo.core.request import EngineRequest
from octavo.entrypoints.openai.intake.context import Incoming, Scheduling
from octavo.entrypoints.openai.intake.open_requests import Ticket, failure_of
from octavo.entrypoints.openai.pooling.request import PoolingBody
from octavo.errors import EngineDead, RequestAborted


class NamedText(NamedTuple):
    """`param` is the field that it came in."""

    param: str
    prompt: str | list[int]


class Vectors(NamedTuple):
    """`rows` [texts, dimensions]. A text's tokens count as often as it was given."""

    rows: npt.NDArray[np.float32]
    num_prompt_tokens: int


async def embed_texts(
    incoming: Incoming,
    body: PoolingBody,
    params: PoolingParams,
    texts: Sequence[NamedText],
    response_id: str,
) -> Vectors:
    """Raises `RequestError`. When it is cancelled nothing of it stays in the engine."""
    inputs, salt = incoming.context.inputs, incoming.cache_salt(body)
    scheduling = Scheduling.of(incoming, body)

    def make_request(text: NamedText) -> EngineRequest:
        request = inputs.embedding(
            text.prompt,
            params,
            param=text.param,
            add_special_tokens=body.add_special_tokens,
            cache_salt=salt,
        )
        return scheduling.mark(request)

    ticket = await incoming.admit_texts(body, [text.prompt for text in texts], response_id)
    try:
        requests = await incoming.work(lambda: [make_request(text) for text in texts])
        num_tokens = sum(len(request.prompt_token_ids) for request in requests)
        ticket.tokenised(num_tokens)
        return Vectors(await _run(incoming, ticket, requests), num_tokens)
    finally:
        ticket.close()


async def _run(
    incoming: Incoming, ticket: Ticket, requests: Sequence[EngineRequest]
) -> npt.NDArray[np.float32]:
    """Whoever is done takes the next request, so that the engine always has enough of them."""
    rows: list[bytes] = [b""] * len(requests)
    waiting = iter(enumerate(requests))

    async def take_turns() -> None:
        for index, request in waiting:
            rows[index] = await _row(incoming, ticket, request)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(len(requests), incoming.context.options.max_sequences_per_request)):
                group.create_task(take_turns())
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return np.frombuffer(b"".join(rows), "<f4").reshape(len(rows), -1)


async def _row(incoming: Incoming, ticket: Ticket, request: EngineRequest) -> bytes:
    if ticket.is_aborted:
        raise RequestAborted("the request was aborted")
    async for output in ticket.open(incoming.context.client, request):
        if output.embedding is not None:
            return output.embedding
        if output.finish_reason == "abort":
            raise RequestAborted("the request was aborted")
        raise failure_of(output)
    raise EngineDead("the engine said nothing of this request")
