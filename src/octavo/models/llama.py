"""Llama and its kin (SmolLM2, Mistral, TinyLlama ...): Touvron et al. 2023.

GGUF stores the rows of query and key so that rope rotates neighbouring columns; they are put in
the order in which it rotates halves, so that all our kernels know one kind of rope.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from octavo.core.model_config import LayerConfig, ModelConfig
from octavo.layers.attention import AttentionWeights
from octavo.layers.decoder import Decoder
from octavo.layers.decoder_layer import DecoderLayer, block_mlp, block_norm
from octavo.models.facts import MAX_CONTEXT_TOKENS, Keys, read_decoder_facts
from octavo.weights.gguf import GGUFFile
from octavo.weights.names import block_bias, block_weight
from octavo.weights.weight import Weight


def from_gguf(file: GGUFFile) -> Decoder:
    keys = Keys(file)
    facts = read_decoder_facts(keys, has_rope_factors=True)
    window = keys.integer("attention.sliding_window", 0, MAX_CONTEXT_TOKENS, default=0)
    config = facts.config((facts.layer(sliding_window=window),) * facts.num_layers)
    layers = tuple(_layer(config, index, file) for index in range(facts.num_layers))
    return Decoder(config, layers, "silu")


def _layer(config: ModelConfig, index: int, file: GGUFFile) -> DecoderLayer:
    return DecoderLayer(
        attention_norm=block_norm(config, index, "attn_norm"),
        attention=_attention(config, index, file),
        mlp_norm=block_norm(config, index, "ffn_norm"),
        mlp=block_mlp(config, index),
    )


def _attention(config: ModelConfig, index: int, file: GGUFFile) -> AttentionWeights:
    layer = config.layers[index]
    width, num_heads, num_kv_heads = config.hidden_size, config.num_heads, layer.num_kv_heads
    query_width, key_width = num_heads * layer.head_dim, num_kv_heads * layer.head_dim
    query_order = half_rotation_order(num_heads, layer)
    key_order = half_rotation_order(num_kv_heads, layer)

    def bias(part: str, rows: int, order: npt.NDArray[np.int32] | None = None) -> Weight | None:
        name = block_bias(index, part)
        return Weight(name, (rows,), order) if name in file.tensors else None

    return AttentionWeights(
        query=Weight(block_weight(index, "attn_q"), (query_width, width), query_order),
        key=Weight(block_weight(index, "attn_k"), (key_width, width), key_order),
        value=Weight(block_weight(index, "attn_v"), (key_width, width)),
        output=Weight(block_weight(index, "attn_output"), (width, query_width)),
        query_bias=bias("attn_q", query_width, query_order),
        key_bias=bias("attn_k", key_width, key_order),
        value_bias=bias("attn_v", key_width),
        output_bias=bias("attn_output", width),
    )


def half_rotation_order(num_heads: int, layer: LayerConfig) -> npt.NDArray[np.int32]:
    """`order[i]` is the row of the file that becomes row i.

    Rope turns the pair (2i, 2i + 1) of a head's first rotary_dim rows in the file, and the pair
    (i, rotary_dim / 2 + i) in ours, by the same angle. Rows that rope leaves alone stay.
    """
    rotary_dim = layer.rope.rotary_dim
    head = np.concatenate(
        (
            np.arange(0, rotary_dim, 2),
            np.arange(1, rotary_dim, 2),
            np.arange(rotary_dim, layer.head_dim),
        )
    )
    starts = np.arange(num_heads) * layer.head_dim
    return (starts[:, None] + head).reshape(-1).astype(np.int32)
