"""The common decoder layer: norm, attention, add, norm, mlp, add. Written on ops."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from octavo.core.model_config import ModelConfig
from octavo.layers.attention import AttentionWeights, attention_block
from octavo.layers.mlp import MlpWeights, gated_mlp
from octavo.ops.interface import Activation, AttentionSpec, KeyOffset, Ops, V
from octavo.ops.rope import inverse_frequencies
from octavo.weights.names import block_weight
from octavo.weights.weight import Weight


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderLayer:
    """Norms are (K,). The post norms, where an architecture has them, follow a block's output."""

    attention_norm: Weight
    attention: AttentionWeights
    mlp_norm: Weight
    mlp: MlpWeights
    attention_post_norm: Weight | None = None
    mlp_post_norm: Weight | None = None

    def weights(self) -> list[Weight]:
        norms = (
            self.attention_norm,
            self.attention_post_norm,
            self.mlp_norm,
            self.mlp_post_norm,
        )
        return [n for n in norms if n is not None] + self.attention.all() + self.mlp.all()


def decoder_layer(
    ops: Ops[V],
    x: V,
    angles: V,
    layer: DecoderLayer,
    index: int,
    config: ModelConfig,
    activation: Activation,
) -> V:
    """[T, K] residual stream -> [T, K] after layer `index`."""
    eps = config.norm_eps
    with ops.scope(f"layers.{index}.attention"):
        h = ops.rms_norm(x, layer.attention_norm, eps)
        spec, offset = attention_spec(config, index), key_offset(config, index, layer.attention)
        h = attention_block(ops, h, angles, layer.attention, index, spec, eps, offset)
        if layer.attention_post_norm is not None:
            h = ops.rms_norm(h, layer.attention_post_norm, eps)
        x = ops.add(x, h)
    with ops.scope(f"layers.{index}.mlp"):
        h = ops.rms_norm(x, layer.mlp_norm, eps)
        h = gated_mlp(ops, h, layer.mlp, activation)
        if layer.mlp_post_norm is not None:
            h = ops.rms_norm(h, layer.mlp_post_norm, eps)
        return ops.add(x, h)


def attention_spec(config: ModelConfig, index: int) -> AttentionSpec:
    layer = config.layers[index]
    return AttentionSpec(
        num_heads=config.num_heads,
        num_kv_heads=layer.num_kv_heads,
        head_dim=layer.head_dim,
        scale=config.attention_scale,
        window=layer.sliding_window,
        softcap=config.attention_softcap,
    )


MAX_STILL_RADIANS = 2.0
"""A column that rope turns by less over the whole context is nearer to its bias, turned, than to
none, seen over all positions."""


def key_offset(config: ModelConfig, index: int, weights: AttentionWeights) -> KeyOffset | None:
    """The key's bias, where rope hardly turns it. Qwen2's are up to fifty times as large as what
    they are added to, nearly all of it in the columns that turn least."""
    rope = config.layers[index].rope
    if weights.key_bias is None or weights.key_norm is not None or config.attention_softcap:
        return None
    radians = inverse_frequencies(rope) * config.max_context_tokens
    num_turning = int(np.count_nonzero(radians >= MAX_STILL_RADIANS))
    if 2 * num_turning == config.layers[index].head_dim:
        return None
    return KeyOffset(vector=weights.key_bias, rotary_dim=rope.rotary_dim, num_turning=num_turning)


def block_attention(config: ModelConfig, index: int) -> AttentionWeights:
    """The projections that every architecture has; biases and norms are for `replace` to add."""
    layer, width = config.layers[index], config.hidden_size
    query_width = config.num_heads * layer.head_dim
    key_width = layer.num_kv_heads * layer.head_dim
    return AttentionWeights(
        query=Weight(block_weight(index, "attn_q"), (query_width, width)),
        key=Weight(block_weight(index, "attn_k"), (key_width, width)),
        value=Weight(block_weight(index, "attn_v"), (key_width, width)),
        output=Weight(block_weight(index, "attn_output"), (width, query_width)),
    )


def block_mlp(config: ModelConfig, index: int) -> MlpWeights:
    wide = (config.intermediate_size, config.hidden_size)
    return MlpWeights(
        gate=Weight(block_weight(index, "ffn_gate"), wide),
        up=Weight(block_weight(index, "ffn_up"), wide),
        down=Weight(block_weight(index, "ffn_down"), wide[::-1]),
    )


def block_norm(config: ModelConfig, index: int, part: str) -> Weight:
    return Weight(block_weight(index, part), (config.hidden_size,))
