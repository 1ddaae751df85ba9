"""Which keys are kept less their bias, and where."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from octavo.core.model_config import LayerConfig, ModelConfig, RopeConfig
from octavo.layers.attention import AttentionWeights
from octavo.layers.decoder_layer import MAX_STILL_RADIANS, block_attention, key_offset
from octavo.ops.rope import inverse_frequencies
from octavo.weights.weight import Weight

BIAS = Weight("bias", (128,))


def config(rotary_dim: int = 64, theta: float = 1e6, context: int = 32768) -> ModelConfig:
    rope = RopeConfig(theta=theta, rotary_dim=rotary_dim)
    layer = LayerConfig(num_kv_heads=2, head_dim=64, rope=rope)
    return ModelConfig(
        architecture="qwen2",
        vocab_size=8,
        hidden_size=128,
        intermediate_size=128,
        num_heads=2,
        layers=(layer,),
        max_context_tokens=context,
        norm_eps=1e-6,
        attention_scale=0.125,
    )


def biased(model: ModelConfig) -> AttentionWeights:
    return replace(block_attention(model, 0), key_bias=BIAS)


def test_the_bias_is_taken_off_where_it_hardly_turns() -> None:
    model = config()
    offset = key_offset(model, 0, biased(model))
    assert offset is not None
    assert offset.vector is BIAS
    radians = inverse_frequencies(model.layers[0].rope) * 32768
    assert 0 < offset.num_turning < 32
    assert radians[offset.num_turning - 1] >= MAX_STILL_RADIANS > radians[offset.num_turning]


def test_keys_without_bias_or_with_a_norm_after_it_are_kept_whole() -> None:
    model = config()
    assert key_offset(model, 0, block_attention(model, 0)) is None
    normed = replace(biased(model), key_norm=Weight("norm", (64,)))
    assert key_offset(model, 0, normed) is None


def test_capped_scores_would_see_an_offset() -> None:
    model = replace(config(), attention_softcap=50.0)
    assert key_offset(model, 0, biased(model)) is None


@pytest.mark.parametrize(("rotary_dim", "is_none"), [(64, True), (32, False)])
def test_columns_that_all_turn_leave_nothing_but_what_is_not_rotated(
    rotary_dim: int, is_none: bool
) -> None:
    model = config(rotary_dim, theta=10.0)
    offset = key_offset(model, 0, biased(model))
    assert (offset is None) == is_none
    assert np.count_nonzero(inverse_frequencies(model.layers[0].rope) < 1e-3) == 0
