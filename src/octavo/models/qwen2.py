"""Qwen2 and Qwen2.5: a Llama with biases on query, key and value (Yang et al. 2024)."""

from __future__ import annotations

from octavo.core.model_config import ModelConfig
from octavo.layers.attention import AttentionWeights
from octavo.layers.decoder import Decoder
from octavo.layers.decoder_layer import DecoderLayer, block_mlp, block_norm
from octavo.models.facts import Keys, read_decoder_facts
from octavo.weights.gguf import GGUFFile
from octavo.weights.names import block_bias, block_weight
from octavo.weights.weight import Weight


def from_gguf(file: GGUFFile) -> Decoder:
    keys = Keys(file)
    facts = read_decoder_facts(keys)
    keys.integer("attention.sliding_window", 0, 0, default=0)
    config = facts.config((facts.layer(),) * facts.num_layers)
    layers = tuple(_layer(config, index) for index in range(facts.num_layers))
    return Decoder(config, layers, "silu")


def _layer(config: ModelConfig, index: int) -> DecoderLayer:
    return DecoderLayer(
        attention_norm=block_norm(config, index, "attn_norm"),
        attention=_attention(config, index),
        mlp_norm=block_norm(config, index, "ffn_norm"),
        mlp=block_mlp(config, index),
    )


def _attention(config: ModelConfig, index: int) -> AttentionWeights:
    layer, width = config.layers[index], config.hidden_size
    query_width = config.num_heads * layer.head_dim
    key_width = layer.num_kv_heads * layer.head_dim
    return AttentionWeights(
        query=Weight(block_weight(index, "attn_q"), (query_width, width)),
        key=Weight(block_weight(index, "attn_k"), (key_width, width)),
        value=Weight(block_weight(index, "attn_v"), (key_width, width)),
        output=Weight(block_weight(index, "attn_output"), (width, query_width)),
        query_bias=Weight(block_bias(index, "attn_q"), (query_width,)),
        key_bias=Weight(block_bias(index, "attn_k"), (key_width,)),
        value_bias=Weight(block_bias(index, "attn_v"), (key_width,)),
    )
