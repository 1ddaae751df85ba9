"""Gemma 3, text only (Gemma Team 2025): five layers that see a window, then one that sees all.

The file stores norm weights with their 1 already added.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from octavo.core.model_config import LayerConfig, ModelConfig, RopeConfig
from octavo.layers.attention import AttentionWeights
from octavo.layers.decoder import Decoder
from octavo.layers.decoder_layer import DecoderLayer, block_attention, block_mlp, block_norm
from octavo.models.facts import MAX_CONTEXT_TOKENS, DecoderFacts, Keys, read_decoder_facts
from octavo.weights.gguf import GGUFFile
from octavo.weights.names import block_weight
from octavo.weights.weight import Weight

GLOBAL_LAYER_EVERY = 6
LOCAL_ROPE_THETA = 10_000.0
LAYERS_OF_27B = 62
"""The 27B model alone scales scores by hidden_size / num_heads; no key of the file says so."""


def from_gguf(file: GGUFFile) -> Decoder:
    keys = Keys(file)
    config = _config(keys, read_decoder_facts(keys))
    layers = tuple(_layer(config, index) for index in range(len(config.layers)))
    return Decoder(config, layers, "gelu_tanh")


def _config(keys: Keys, facts: DecoderFacts) -> ModelConfig:
    scale_key = f"{facts.architecture}.attention.scale"
    if facts.num_layers == LAYERS_OF_27B and scale_key not in keys.file.metadata:
        scale = (facts.hidden_size / facts.num_heads) ** -0.5
        facts = replace(facts, attention_scale=scale)
    return facts.config(
        _layer_configs(keys, facts),
        attention_softcap=keys.real("attn_logit_softcapping", 0.0, 1e6, default=0.0),
        logits_softcap=keys.real("final_logit_softcapping", 0.0, 1e6, default=0.0),
        embedding_scale=math.sqrt(facts.hidden_size),
    )


def _layer_configs(keys: Keys, facts: DecoderFacts) -> tuple[LayerConfig, ...]:
    window = keys.integer("attention.sliding_window", 1, MAX_CONTEXT_TOKENS)
    local_rope = RopeConfig(
        theta=keys.real("rope.freq_base_swa", 1.0, 1e12, default=LOCAL_ROPE_THETA),
        rotary_dim=facts.rope.rotary_dim,
    )
    local_layer = facts.layer(sliding_window=window, rope=local_rope)
    return tuple(
        local_layer if is_local else facts.layer() for is_local in _is_local(keys, facts.num_layers)
    )


def _is_local(keys: Keys, num_layers: int) -> list[bool]:
    """Which layers see a window: told one by one, or all but every n-th."""
    name = "attention.sliding_window_pattern"
    pattern = keys.file.metadata.get(f"{keys.architecture}.{name}")
    if isinstance(pattern, np.ndarray):
        if pattern.dtype != np.bool_ or pattern.shape != (num_layers,):
            raise keys.refuse(name, f"has shape {pattern.shape}; {num_layers} booleans are allowed")
        return [bool(one) for one in pattern]
    every = keys.integer(name, 1, num_layers + 1, default=GLOBAL_LAYER_EVERY)
    return [(index + 1) % every != 0 for index in range(num_layers)]


def _layer(config: ModelConfig, index: int) -> DecoderLayer:
    return DecoderLayer(
        attention_norm=block_norm(config, index, "attn_norm"),
        attention=_attention(config, index),
        attention_post_norm=block_norm(config, index, "post_attention_norm"),
        mlp_norm=block_norm(config, index, "ffn_norm"),
        mlp=block_mlp(config, index),
        mlp_post_norm=block_norm(config, index, "post_ffw_norm"),
    )


def _attention(config: ModelConfig, index: int) -> AttentionWeights:
    width = config.layers[index].head_dim
    return replace(
        block_attention(config, index),
        query_norm=Weight(block_weight(index, "attn_q_norm"), (width,)),
        key_norm=Weight(block_weight(index, "attn_k_norm"), (width,)),
    )
