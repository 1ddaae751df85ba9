"""Vectors offline: what `LLM.embed`, `encode` and `score` return, by vLLM's names, and their run.

Prompts have become requests already; knows no prompt format.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from octavo.core.outputs import SequenceOutput
from octavo.core.request import EngineRequest
from octavo.entrypoints.local import LocalEngine
from octavo.entrypoints.progress import BatchBar
from octavo.errors import EngineDead

F32 = npt.NDArray[np.float32]


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
class PoolingRequestOutput:
    """One prompt and its vector. `num_cached_tokens` were not computed but found."""

    request_id: str
    outputs: PoolingOutput
    prompt_token_ids: list[int]
    num_cached_tokens: int
    finished: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingRequestOutput:
    """The same, as a list of numbers."""

    request_id: str
    outputs: EmbeddingOutput
    prompt_token_ids: list[int]
    num_cached_tokens: int
    finished: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoringRequestOutput:
    """Two texts and the cosine of their vectors. `prompt_token_ids` are those of both."""

    request_id: str
    outputs: ScoringOutput
    prompt_token_ids: list[int]
    num_cached_tokens: int
    finished: bool = True


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
    products = left.outputs.data.astype(np.float64) * right.outputs.data
    return ScoringRequestOutput(
        request_id=right.request_id,
        outputs=ScoringOutput(float(np.add.reduce(products))),
        prompt_token_ids=left.prompt_token_ids + right.prompt_token_ids,
        num_cached_tokens=left.num_cached_tokens + right.num_cached_tokens,
    )
