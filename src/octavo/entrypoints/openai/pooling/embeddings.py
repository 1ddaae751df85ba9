"""`POST /v1/embeddings`: the vectors of texts, as numbers or in base64."""

from __future__ import annotations

import base64
import time

import numpy as np
import numpy.typing as npt
from starlette.requests import Request
from starlette.responses import Response

from octavo.entrypoints.openai.bodies.ids import new_id
from octavo.entrypoints.openai.http.errors import json_response
from octavo.entrypoints.openai.http.streaming import client_closed, unless_disconnected
from octavo.entrypoints.openai.intake.context import Incoming, receive_body
from octavo.entrypoints.openai.pooling.objects import EmbeddingData, EmbeddingList, PromptUsage
from octavo.entrypoints.openai.pooling.request import EmbeddingBody
from octavo.entrypoints.openai.pooling.vectors import NamedText, Vectors, embed_texts


async def create_embeddings(request: Request) -> Response:
    incoming, body = await receive_body(request, EmbeddingBody)
    return await unless_disconnected(request, _embed(incoming, body)) or client_closed()


async def _embed(incoming: Incoming, body: EmbeddingBody) -> Response:
    response_id = new_id("embd-")
    texts = [NamedText("input", prompt) for prompt in body.prompts]
    vectors = await embed_texts(incoming, body, body.params(), texts, response_id)
    model = body.model or incoming.context.model.names[0]
    return json_response(_embedding_list(body, vectors, response_id, model))


def _embedding_list(
    body: EmbeddingBody, vectors: Vectors, response_id: str, model: str
) -> EmbeddingList:
    write = _in_base64 if body.encoding_format == "base64" else _as_numbers
    data = [
        EmbeddingData(index=index, embedding=write(row)) for index, row in enumerate(vectors.rows)
    ]
    return EmbeddingList(
        id=response_id,
        created=int(time.time()),
        model=model,
        data=data,
        usage=PromptUsage(vectors.num_prompt_tokens, vectors.num_prompt_tokens),
    )


def _in_base64(row: npt.NDArray[np.float32]) -> str:
    return base64.b64encode(row.tobytes()).decode()


def _as_numbers(row: npt.NDArray[np.float32]) -> list[float]:
    numbers: list[float] = row.tolist()
    return numbers
