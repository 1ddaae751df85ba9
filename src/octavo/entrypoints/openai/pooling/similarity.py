"""`POST /score` and `POST /rerank`: how alike texts are, by the cosine of their embeddings."""

from __future__ import annotations

import time

import numpy as np
import numpy.typing as npt
from starlette.requests import Request
from starlette.responses import Response

from octavo.core.ranges import check_integer
from octavo.entrypoints.openai.bodies.ids import new_id
from octavo.entrypoints.openai.http.errors import json_response
from octavo.entrypoints.openai.http.streaming import client_closed, unless_disconnected
from octavo.entrypoints.openai.intake.context import Incoming, receive_body
from octavo.entrypoints.openai.pooling.objects import (
    PromptUsage,
    RerankDocument,
    RerankList,
    RerankResult,
    ScoreData,
    ScoreList,
)
from octavo.entrypoints.openai.pooling.request import RerankBody, ScoreBody, SimilarityBody
from octavo.entrypoints.openai.pooling.vectors import NamedText, Vectors, embed_texts

F32 = npt.NDArray[np.float32]


async def create_score(request: Request) -> Response:
    incoming, body = await receive_body(request, ScoreBody)
    return await unless_disconnected(request, _score(incoming, body)) or client_closed()


async def create_rerank(request: Request) -> Response:
    incoming, body = await receive_body(request, RerankBody)
    return await unless_disconnected(request, _rerank(incoming, body)) or client_closed()


async def _score(incoming: Incoming, body: ScoreBody) -> Response:
    (left_name, left), (right_name, right) = body.pairs()
    response_id = new_id("score-")
    texts = [NamedText(left_name, text) for text in left]
    texts += [NamedText(right_name, text) for text in right]
    vectors = await embed_texts(incoming, body, body.params(), texts, response_id)
    scores = cosines(vectors.rows[: len(left)], vectors.rows[len(left) :])
    return json_response(
        ScoreList(
            id=response_id,
            created=int(time.time()),
            model=_model(incoming, body),
            data=[ScoreData(index=index, score=score) for index, score in enumerate(scores)],
            usage=_usage(vectors),
        )
    )


async def _rerank(incoming: Incoming, body: RerankBody) -> Response:
    documents = body.texts()
    check_integer("top_n", body.top_n, 0, 2**31 - 1)
    response_id = new_id("rerank-")
    texts = [NamedText("query", body.query)]
    texts += [NamedText("documents", text) for text in documents]
    vectors = await embed_texts(incoming, body, body.params(), texts, response_id)
    scores = cosines(vectors.rows[:1], vectors.rows[1:])
    best = sorted(range(len(scores)), key=lambda index: -scores[index])
    results = []
    for index in best[: body.top_n or None]:
        result = RerankResult(index=index, relevance_score=scores[index])
        if body.return_documents:
            result = RerankResult(
                index=index,
                document=RerankDocument(documents[index]),
                relevance_score=scores[index],
            )
        results.append(result)
    return json_response(
        RerankList(
            id=response_id, model=_model(incoming, body), usage=_usage(vectors), results=results
        )
    )


def cosines(left: F32, right: F32) -> list[float]:
    """Of rows of length 1: each of `right` with its partner in `left`, or with its only row."""
    products = left.astype(np.float64) * right
    scores: list[float] = np.add.reduce(products, axis=1).tolist()
    return scores


def _model(incoming: Incoming, body: SimilarityBody) -> str:
    return body.model or incoming.context.model.names[0]


def _usage(vectors: Vectors) -> PromptUsage:
    return PromptUsage(vectors.num_prompt_tokens, vectors.num_prompt_tokens)
