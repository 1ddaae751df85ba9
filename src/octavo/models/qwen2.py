"""Qwen2 and Qwen2.5: a Llama with biases on query, key and value (Yang et al. 2024)."""

from __future__ import annotations

from dataclasses import replace

from octavo.core.model_config import ModelConfig
from octavo.layers.attention import AttentionWeights
from octavo.layers.decoder import Decoder
from octavo.layers.decoder_layer import DecoderLayer, block_attention, block_mlp, block_norm
from octavo.models.facts import Keys, read_decoder_facts
from octavo.weights.gguf import GGUFFile
from octavo.weights.names import block_bias
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
    projections = block_attention(config, index)
    return replace(
        projections,
        query_bias=Weight(block_bias(index, "attn_q"), projections.query.shape[:1]),
        key_bias=Weight(block_bias(index, "attn_k"), projections.key.shape[:1]),
        value_bias=Weight(block_bias(index, "attn_v"), projections.value.shape[:1]),
    )
