"""The routes that answer with vectors, or with what is made of them, one row each."""

from __future__ import annotations

from octavo.entrypoints.openai.embeddings import create_embeddings
from octavo.entrypoints.openai.endpoint import Endpoint
from octavo.entrypoints.openai.pooling_requests import EmbeddingBody, RerankBody, ScoreBody
from octavo.entrypoints.openai.pooling_responses import EmbeddingList, RerankList, ScoreList
from octavo.entrypoints.openai.similarity import create_rerank, create_score

_ABORTED = (410,)
_SCORE_PATHS = ("/v1/score", "/score")
_RERANK_PATHS = ("/v1/rerank", "/rerank", "/v2/rerank")

POOLING_ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        method="POST",
        path="/v1/embeddings",
        handler=create_embeddings,
        summary="The vectors of texts.",
        request=EmbeddingBody,
        answer=EmbeddingList,
        statuses=_ABORTED,
    ),
    *(
        Endpoint(
            method="POST",
            path=path,
            handler=create_score,
            summary="How alike texts are: the cosines of their vectors.",
            request=ScoreBody,
            answer=ScoreList,
            statuses=_ABORTED,
        )
        for path in _SCORE_PATHS
    ),
    *(
        Endpoint(
            method="POST",
            path=path,
            handler=create_rerank,
            summary="Documents by how alike they are to a query.",
            request=RerankBody,
            answer=RerankList,
            statuses=_ABORTED,
        )
        for path in _RERANK_PATHS
    ),
)
