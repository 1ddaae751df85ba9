"""The bodies that answer with vectors, or with what is made of them. Data only; knows no engine."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType


class PromptUsage(msgspec.Struct, frozen=True):
    prompt_tokens: int
    total_tokens: int


class EmbeddingData(msgspec.Struct, frozen=True, kw_only=True):
    """`embedding` as numbers, or in base64 as float32, little-endian."""

    object: Literal["embedding"] = "embedding"
    index: int
    embedding: list[float] | str


class EmbeddingList(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    object: Literal["list"] = "list"
    created: int
    model: str
    data: list[EmbeddingData]
    usage: PromptUsage


class ScoreData(msgspec.Struct, frozen=True, kw_only=True):
    index: int
    object: Literal["score"] = "score"
    score: float


class ScoreList(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    object: Literal["list"] = "list"
    created: int
    model: str
    data: list[ScoreData]
    usage: PromptUsage


class RerankDocument(msgspec.Struct, frozen=True):
    text: str


class RerankResult(msgspec.Struct, frozen=True, kw_only=True):
    index: int
    document: RerankDocument | UnsetType = UNSET
    relevance_score: float


class RerankList(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    model: str
    usage: PromptUsage
    results: list[RerankResult]
