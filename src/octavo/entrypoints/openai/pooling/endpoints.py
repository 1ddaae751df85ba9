"""The routes that answer with vectors, or with what is made of them, one row each."""

from __future__ import annotations

from octavo.entrypoints.openai.pooling.embeddings import create_embeddings
from octavo.entrypoints.openai.pooling.objects import EmbeddingList, RerankList, ScoreList
from octavo.entrypoints.openai.pooling.request import EmbeddingBody, RerankBody, ScoreBody
from octavo.entrypoints.openai.pooling.similarity import create_rerank, create_score
from octavo.entrypoints.openai.schema.endpoint import Endpoint

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
