"""The facts of one model that the engine and the model files need, read from its file's metadata.

Each `models/*.py` fills one from its own metadata; nothing here knows an architecture or a format.
"""

from __future__ import annotations

from dataclasses import dataclass

KV_ELEMENT_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2, "int16": 2, "int8": 1}
"""Element types in which keys and values can be kept, and their sizes."""

KV_SCALE_BYTES = {"int16": 4, "int8": 4}
"""Types with a scale of each token's key, and value, of each head; and its size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RopeConfig:
    """Rotary embedding of one kind of layer. `scale` divides all frequencies (linear scaling),
    `factors` divide them one by one."""

    theta: float
    rotary_dim: int
    scale: float = 1.0
    factors: tuple[float, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerConfig:
    """What may differ between layers. `sliding_window` 0 means full attention."""

    num_kv_heads: int
    head_dim: int
    rope: RopeConfig
    sliding_window: int = 0

    def kv_bytes_per_token(self, dtype: str) -> int:
        """Bytes of keys and values of one token. `dtype` is of KV_ELEMENT_BYTES."""
        element_bytes, scale_bytes = KV_ELEMENT_BYTES[dtype], KV_SCALE_BYTES.get(dtype, 0)
        return 2 * self.num_kv_heads * (self.head_dim * element_bytes + scale_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """`pooling_type` is what embeddings of it are made of ("mean", "last", "cls"); "" if the file
    does not say."""

    architecture: str
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_heads: int
    layers: tuple[LayerConfig, ...]
    max_context_tokens: int
    norm_eps: float
    attention_scale: float
    attention_softcap: float = 0.0
    logits_softcap: float = 0.0
    embedding_scale: float = 1.0
    ties_embeddings: bool = False
    pooling_type: str = ""

    def kv_bytes_per_token(self, dtype: str) -> int:
        """Bytes of keys and values of one token in all layers. `dtype` is of KV_ELEMENT_BYTES."""
        return sum(layer.kv_bytes_per_token(dtype) for layer in self.layers)
