"""Vectors offline: what `LLM.embed`, `encode` and `score` return, by vLLM's names, and their run.

Prompts have become requests already; knows no prompt format.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from octavo.core.outputs import SequenceOutput
from octavo.core.request import EngineRequest
from octavo.entrypoints.cosines import F32, cosines
from octavo.entrypoints.local import LocalEngine
from octavo.entrypoints.progress import BatchBar
from octavo.errors import EngineDead


@dataclass(frozen=True, slots=True)
class PoolingOutput:
    """`data` (dimensions,)."""

    data: F32


@dataclass(frozen=True, slots=True)
class EmbeddingOutput:
    embedding: list[float]

    @property
    def hidden_size(self) -> int:
        return len(self.embedding)


@dataclass(frozen=True, slots=True)
class ScoringOutput:
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _RequestOutput:
    """`num_cached_tokens` were not computed but found."""

    request_id: str
    prompt_token_ids: list[int]
    num_cached_tokens: int
    finished: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolingRequestOutput(_RequestOutput):
    """One prompt and its vector."""

    outputs: PoolingOutput


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingRequestOutput(_RequestOutput):
    """The same, as a list of numbers."""

    outputs: EmbeddingOutput


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoringRequestOutput(_RequestOutput):
    """Two texts and the cosine of their vectors. `prompt_token_ids` are those of both."""

    outputs: ScoringOutput


def run_pooling(
    engine: LocalEngine, requests: Sequence[EngineRequest], *, use_tqdm: bool
) -> list[PoolingRequestOutput]:
    """The results in the order of the requests. Raises `EngineDead` if the engine fails on one."""
    outputs: dict[str, SequenceOutput] = {}
    with BatchBar(len(requests), is_shown=use_tqdm) as bar:
        for output in engine.run(requests):
            outputs[output.request_id] = output
            bar.add(num_tokens=0, num_prompts=1)
    return [_result(request, outputs[request.request_id]) for request in requests]


def _result(request: EngineRequest, output: SequenceOutput) -> PoolingRequestOutput:
    if output.embedding is None:
        raise EngineDead(output.error or "the engine failed; the request was not finished")
    return PoolingRequestOutput(
        request_id=request.request_id,
        outputs=PoolingOutput(np.frombuffer(output.embedding, "<f4")),
        prompt_token_ids=request.prompt_token_ids,
        num_cached_tokens=output.num_cached_tokens,
    )


def as_embedding(result: PoolingRequestOutput) -> EmbeddingRequestOutput:
    return EmbeddingRequestOutput(
        request_id=result.request_id,
        outputs=EmbeddingOutput(result.outputs.data.tolist()),
        prompt_token_ids=result.prompt_token_ids,
        num_cached_tokens=result.num_cached_tokens,
    )


def as_score(left: PoolingRequestOutput, right: PoolingRequestOutput) -> ScoringRequestOutput:
    """Of vectors of length 1."""
    (score,) = cosines(left.outputs.data[None], right.outputs.data[None])
    return ScoringRequestOutput(
        request_id=right.request_id,
        outputs=ScoringOutput(score),
        prompt_token_ids=left.prompt_token_ids + right.prompt_token_ids,
        num_cached_tokens=left.num_cached_tokens + right.num_cached_tokens,
    )
