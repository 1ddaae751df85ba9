"""The bodies of the routes that answer with vectors or what is made of them. Knows no engine."""

from __future__ import annotations

from typing import Literal

import msgspec

from octavo.core.pooling import PoolingParams
from octavo.entrypoints.openai.bodies.body import EngineBody, Prompts, Unsupported, listed_prompts
from octavo.errors import InvalidRequest

Texts = str | list[str]


class PoolingBody(EngineBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What they share. Ranges are checked by `PoolingParams`."""

    truncate_prompt_tokens: int | None = None
    truncation_side: Literal["left", "right"] = "left"
    add_special_tokens: bool = True
    mm_processor_kwargs: Unsupported = None


class EmbeddingBody(PoolingBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`POST /v1/embeddings`. `use_activation` is vLLM's newer name of `normalize`."""

    input: Prompts
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = None
    normalize: bool | None = None
    use_activation: bool | None = None
    embed_dtype: Literal["float32"] = "float32"
    endianness: Literal["native", "little"] = "native"

    @property
    def prompts(self) -> list[str | list[int]]:
        return listed_prompts(self.input, "input")

    def params(self) -> PoolingParams:
        return PoolingParams(
            truncate_prompt_tokens=self.truncate_prompt_tokens,
            truncation_side=self.truncation_side,
            dimensions=self.dimensions,
            normalize=self.normalize,
            use_activation=self.use_activation,
        )


class SimilarityBody(PoolingBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What asks how alike texts are. `use_activation` is for models that score pairs themselves."""

    use_activation: Unsupported = None

    def params(self) -> PoolingParams:
        return PoolingParams(
            truncate_prompt_tokens=self.truncate_prompt_tokens,
            truncation_side=self.truncation_side,
            normalize=True,
        )


class ScoreBody(SimilarityBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`POST /score`: one of vLLM's three pairs of names. One text is compared with each of the
    others, or two lists text by text."""

    text_1: Texts | None = None
    text_2: Texts | None = None
    data_1: Texts | None = None
    data_2: Texts | None = None
    queries: Texts | None = None
    documents: Texts | None = None

    def pairs(self) -> tuple[tuple[str, list[str]], tuple[str, list[str]]]:
        """Both sides, each with its name. Raises `InvalidRequest`."""
        names = (("text_1", "text_2"), ("data_1", "data_2"), ("queries", "documents"))
        given = [pair for pair in names if any(getattr(self, name) is not None for name in pair)]
        if len(given) != 1 or any(getattr(self, name) is None for name in given[0]):
            raise InvalidRequest(
                "text_1 and text_2 are needed, or data_1 and data_2, or queries and documents",
                param=given[0][0] if given else "text_1",
            )
        left, right = ((name, _listed(getattr(self, name), name)) for name in given[0])
        if len(left[1]) not in (1, len(right[1])):
            raise InvalidRequest(
                f"{left[0]} has {len(left[1])} texts and {right[0]} {len(right[1])}; one, or as "
                "many on both sides, are allowed",
                param=left[0],
            )
        return left, right


class RerankText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    text: str


class RerankBody(SimilarityBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`POST /rerank`, of Jina and Cohere. `top_n` 0 answers with all documents."""

    query: str
    documents: list[str | RerankText]
    top_n: int = 0
    return_documents: bool = True
    max_tokens_per_doc: Unsupported = None
    max_chunks_per_doc: Unsupported = None
    rank_fields: Unsupported = None

    def texts(self) -> list[str]:
        """Raises `InvalidRequest` if there are none."""
        given = [one.text if isinstance(one, RerankText) else one for one in self.documents]
        return _listed(given, "documents")


def _listed(texts: Texts, param: str) -> list[str]:
    if not texts and isinstance(texts, list):
        raise InvalidRequest(f"{param} is empty; at least one text is needed", param=param)
    return [texts] if isinstance(texts, str) else texts
