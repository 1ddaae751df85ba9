"""The facts that decoder-only models of GGUF files have in common, read and checked.

Raises `WeightError` naming the key. Knows no architecture; each model file adds what is its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from octavo.core.model_config import LayerConfig, ModelConfig, RopeConfig
from octavo.core.packed_texts import PackedTexts
from octavo.errors import WeightError
from octavo.weights.gguf import GGUFFile
from octavo.weights.metadata import (
    metadata_bool,
    metadata_float,
    metadata_int,
    metadata_str,
)
from octavo.weights.names import OUTPUT, ROPE_FACTORS, TOKEN_EMBEDDING

MAX_LAYERS = 1024
MAX_WIDTH = 1 << 20
MAX_HEADS = 4096
MAX_VOCABULARY = 1 << 24
MAX_CONTEXT_TOKENS = 1 << 27
HEAD_DIM_MULTIPLE = 16
"""The native core walks heads in whole registers of 16 floats."""

POOLING_TYPES = ("", "mean", "cls", "last", "")
"""By ggml's number: none, and rank, which needs a head of its own, say nothing of embeddings."""

UNSUPPORTED_KEYS = (
    "expert_count",
    "attention.clamp_kqv",
    "attention.max_alibi_bias",
    "attention.q_lora_rank",
    "embedding_scale",
    "logit_scale",
    "residual_scale",
    "rope.scaling.attn_factor",
)
"""Keys that would change the mathematics. Absent or zero in the files that we can run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderFacts:
    """`rope` is the rotary embedding that the file describes, for all layers unless a model says
    otherwise."""

    architecture: str
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    max_context_tokens: int
    norm_eps: float
    attention_scale: float
    rope: RopeConfig
    ties_embeddings: bool
    pooling_type: str

    def layer(self, *, sliding_window: int = 0, rope: RopeConfig | None = None) -> LayerConfig:
        return LayerConfig(
            num_kv_heads=self.num_kv_heads,
            head_dim=self.head_dim,
            rope=rope or self.rope,
            sliding_window=sliding_window,
        )

    def config(
        self,
        layers: tuple[LayerConfig, ...],
        *,
        attention_softcap: float = 0.0,
        logits_softcap: float = 0.0,
        embedding_scale: float = 1.0,
    ) -> ModelConfig:
        return ModelConfig(
            architecture=self.architecture,
            vocab_size=self.vocab_size,
            hidden_size=self.hidden_size,
            intermediate_size=self.intermediate_size,
            num_heads=self.num_heads,
            layers=layers,
            max_context_tokens=self.max_context_tokens,
            norm_eps=self.norm_eps,
            attention_scale=self.attention_scale,
            attention_softcap=attention_softcap,
            logits_softcap=logits_softcap,
            embedding_scale=embedding_scale,
            ties_embeddings=self.ties_embeddings,
            pooling_type=self.pooling_type,
        )


class Keys:
    """Checked access to the keys `<architecture>.<name>` of one file."""

    def __init__(self, file: GGUFFile) -> None:
        self.file = file
        self.architecture = metadata_str(file.metadata, "general.architecture", file=file.path)

    def integer(self, name: str, low: int, high: int, *, default: int | None = None) -> int:
        key = f"{self.architecture}.{name}"
        meta, path = self.file.metadata, self.file.path
        return metadata_int(meta, key, low, high, default=default, file=path)

    def real(self, name: str, low: float, high: float, *, default: float | None = None) -> float:
        key = f"{self.architecture}.{name}"
        meta, path = self.file.metadata, self.file.path
        return metadata_float(meta, key, low, high, default=default, file=path)

    def word(self, name: str, choices: tuple[str, ...], *, default: str) -> str:
        key = f"{self.architecture}.{name}"
        meta, path = self.file.metadata, self.file.path
        return metadata_str(meta, key, choices=choices, default=default, file=path)

    def refuse(self, name: str, why: str) -> WeightError:
        return WeightError(self.file.path, f"{self.architecture}.{name} {why}")


def read_decoder_facts(keys: Keys, *, has_rope_factors: bool = False) -> DecoderFacts:
    """`has_rope_factors`: the architecture knows the tensor of per-frequency divisors."""
    _refuse_unsupported(keys)
    hidden_size = keys.integer("embedding_length", 1, MAX_WIDTH)
    num_heads = keys.integer("attention.head_count", 1, MAX_HEADS)
    num_kv_heads = keys.integer("attention.head_count_kv", 1, num_heads, default=num_heads)
    if num_heads % num_kv_heads:
        raise keys.refuse("attention.head_count_kv", f"{num_kv_heads} does not divide {num_heads}")
    head_dim = _head_dim(keys, hidden_size, num_heads)
    return DecoderFacts(
        architecture=keys.architecture,
        vocab_size=_vocab_size(keys),
        hidden_size=hidden_size,
        intermediate_size=keys.integer("feed_forward_length", 1, MAX_WIDTH),
        num_layers=keys.integer("block_count", 1, MAX_LAYERS),
        num_heads=num_heads,
        num_kv_heads=num_kv_heads,
        head_dim=head_dim,
        max_context_tokens=keys.integer("context_length", 1, MAX_CONTEXT_TOKENS),
        norm_eps=keys.real("attention.layer_norm_rms_epsilon", 0.0, 1.0),
        attention_scale=keys.real("attention.scale", 1e-6, 1e6, default=head_dim**-0.5),
        rope=_rope(keys, head_dim, has_rope_factors),
        ties_embeddings=OUTPUT not in keys.file.tensors,
        pooling_type=POOLING_TYPES[keys.integer("pooling_type", 0, 4, default=0)],
    )


def _refuse_unsupported(keys: Keys) -> None:
    for name in UNSUPPORTED_KEYS:
        keys.real(name, 0.0, 0.0, default=0.0)
    meta, path = keys.file.metadata, keys.file.path
    key = f"{keys.architecture}.attention.causal"
    if not metadata_bool(meta, key, default=True, file=path):
        raise keys.refuse("attention.causal", "is false; only causal models are supported")


def _head_dim(keys: Keys, hidden_size: int, num_heads: int) -> int:
    head_dim = keys.integer("attention.key_length", 1, MAX_WIDTH, default=hidden_size // num_heads)
    keys.integer("attention.value_length", head_dim, head_dim, default=head_dim)
    if head_dim % HEAD_DIM_MULTIPLE or head_dim == 0:
        raise keys.refuse(
            "attention.key_length", f"is {head_dim}; a multiple of {HEAD_DIM_MULTIPLE} is allowed"
        )
    return head_dim


def _vocab_size(keys: Keys) -> int:
    """Rows of the embedding table; a file may leave out the metadata key, or pad the table."""
    table = keys.file.tensors.get(TOKEN_EMBEDDING)
    if table is None or len(table.shape) != 2:
        raise WeightError(keys.file.path, f"has no matrix {TOKEN_EMBEDDING}")
    rows = table.shape[0]
    keys.integer("vocab_size", 1, rows, default=rows)
    tokens = keys.file.metadata.get("tokenizer.ggml.tokens")
    if isinstance(tokens, PackedTexts) and len(tokens) > rows:
        raise WeightError(
            keys.file.path,
            f"{TOKEN_EMBEDDING} has {rows} rows for {len(tokens)} tokens",
            offset=table.offset,
        )
    return rows


def _rope(keys: Keys, head_dim: int, has_factors: bool) -> RopeConfig:
    rotary_dim = keys.integer("rope.dimension_count", 2, head_dim, default=head_dim)
    if rotary_dim % 2:
        raise keys.refuse("rope.dimension_count", f"is {rotary_dim}; an even number is allowed")
    return RopeConfig(
        theta=keys.real("rope.freq_base", 1.0, 1e12, default=10000.0),
        rotary_dim=rotary_dim,
        scale=_rope_scale(keys),
        factors=_rope_factors(keys, rotary_dim) if has_factors else None,
    )


def _rope_scale(keys: Keys) -> float:
    """Linear position interpolation; `rope.scale_linear` is its older spelling."""
    kind = keys.word("rope.scaling.type", ("none", "linear"), default="linear")
    older = keys.real("rope.scale_linear", 1e-3, 1e6, default=1.0)
    factor = keys.real("rope.scaling.factor", 1e-3, 1e6, default=older)
    return factor if kind == "linear" else 1.0


def _rope_factors(keys: Keys, rotary_dim: int) -> tuple[float, ...] | None:
    info = keys.file.tensors.get(ROPE_FACTORS)
    if info is None:
        return None
    if info.type_name != "F32" or info.shape != (rotary_dim // 2,):
        raise WeightError(
            keys.file.path,
            f"{ROPE_FACTORS} is {info.type_name} {info.shape}; F32 ({rotary_dim // 2},) is allowed",
            offset=info.offset,
        )
    factors = keys.file.data(ROPE_FACTORS).view(np.float32)
    if not np.all(np.isfinite(factors) & (factors > 0)):
        raise WeightError(
            keys.file.path,
            f"{ROPE_FACTORS} holds a factor that is not positive",
            offset=info.offset,
        )
    return tuple(float(factor) for factor in factors)
