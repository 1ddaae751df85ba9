"""Facts of model files: what is wrong is refused by name, what is optional has its default."""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from typing import cast

import numpy as np
import pytest

from octavo.core.model_config import RopeConfig
from octavo.core.packed_texts import PackedTexts
from octavo.errors import WeightError
from octavo.models.llama import half_rotation_order
from octavo.models.model import Model
from octavo.models.registry import model_from_gguf, read_model_config
from octavo.weights.gguf import GGUFFile, TensorInfo
from octavo.weights.metadata import MetadataValue
from tests.models.conftest import MakeTiny

Keys = Mapping[str, MetadataValue | None]


def _build(file: GGUFFile, keys: Keys, tensors: Mapping[str, TensorInfo | None]) -> Model:
    """The model of `file` with some keys and tensors replaced, or dropped where None."""
    metadata = {k: v for k, v in (dict(file.metadata) | dict(keys)).items() if v is not None}
    infos = {k: v for k, v in (dict(file.tensors) | dict(tensors)).items() if v is not None}
    return model_from_gguf(GGUFFile(file.path, cast(mmap.mmap, None), metadata, infos))


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("llama", "general.architecture", "mamba9"),
        ("llama", "general.architecture", None),
        ("llama", "llama.block_count", None),
        ("llama", "llama.block_count", 0),
        ("llama", "llama.block_count", 10**6),
        ("llama", "llama.block_count", "three"),
        ("llama", "llama.embedding_length", -96),
        ("llama", "llama.feed_forward_length", 1.5),
        ("llama", "llama.attention.head_count", 0),
        ("llama", "llama.attention.head_count", np.array([6, 6, 6])),
        ("llama", "llama.attention.head_count_kv", 4),
        ("llama", "llama.attention.head_count_kv", 7),
        ("llama", "llama.attention.key_length", 24),
        ("llama", "llama.attention.value_length", 32),
        ("llama", "llama.attention.layer_norm_rms_epsilon", None),
        ("llama", "llama.attention.layer_norm_rms_epsilon", float("nan")),
        ("llama", "llama.rope.dimension_count", 15),
        ("llama", "llama.rope.dimension_count", 18),
        ("llama", "llama.rope.freq_base", 0.0),
        ("llama", "llama.rope.scaling.type", "yarn"),
        ("llama", "llama.rope.scaling.factor", 0.0),
        ("llama", "llama.rope.scaling.attn_factor", 1.5),
        ("llama", "llama.expert_count", 8),
        ("llama", "llama.logit_scale", 0.5),
        ("llama", "llama.attention.causal", False),
        ("llama", "llama.context_length", 0),
        ("llama", "llama.vocab_size", 193),
        ("qwen2", "qwen2.attention.sliding_window", 4096),
        ("gemma3", "gemma3.attention.sliding_window", None),
        ("gemma3", "gemma3.attention.sliding_window", 0),
        ("gemma3", "gemma3.attention.sliding_window_pattern", np.array([True, False])),
        ("gemma3", "gemma3.attention.sliding_window_pattern", 0),
        ("gemma3", "gemma3.final_logit_softcapping", -1.0),
    ],
)
def test_a_bad_key_is_refused_by_name(
    make_tiny: MakeTiny, name: str, key: str, value: MetadataValue | None
) -> None:
    file = GGUFFile.open(make_tiny(name).path)
    blamed = "attention.key_length" if key.endswith("key_length") else key
    with pytest.raises(WeightError, match=blamed):
        _build(file, {key: value}, {})


def test_a_vocabulary_larger_than_the_table_is_refused(make_tiny: MakeTiny) -> None:
    file = GGUFFile.open(make_tiny("llama").path)
    with pytest.raises(WeightError, match="192 rows for 200 tokens"):
        _build(file, {"tokenizer.ggml.tokens": PackedTexts.pack(["x"] * 200)}, {})
    with pytest.raises(WeightError, match="token_embd"):
        _build(file, {}, {"token_embd.weight": None})


def test_facts_of_llama(make_tiny: MakeTiny) -> None:
    config = read_model_config(GGUFFile.open(make_tiny("llama").path))
    assert (config.num_heads, config.layers[0].num_kv_heads, config.layers[0].head_dim) == (
        6,
        2,
        16,
    )
    assert config.layers[2].rope == RopeConfig(theta=5000.0, rotary_dim=16)
    assert config.attention_scale == 0.25
    assert config.embedding_scale == 1.0
    assert not config.ties_embeddings


def test_kv_heads_default_to_heads_and_factors_are_read(make_tiny: MakeTiny) -> None:
    config = read_model_config(GGUFFile.open(make_tiny("llama-tied-rope-factors").path))
    assert config.layers[0].num_kv_heads == 4
    assert config.layers[0].head_dim == 32
    factors = config.layers[0].rope.factors
    assert factors is not None
    assert len(factors) == 16
    assert factors[0] == pytest.approx(1.0)
    assert factors[-1] == pytest.approx(8.0, rel=1e-5)
    assert config.ties_embeddings


def test_layers_of_gemma3_see_a_window_but_for_every_sixth(make_tiny: MakeTiny) -> None:
    file = GGUFFile.open(make_tiny("gemma3").path)
    config = read_model_config(file)
    assert [layer.sliding_window for layer in config.layers] == [20] * 5 + [0] + [20]
    assert [layer.rope.theta for layer in config.layers] == [1e4] * 5 + [1e6] + [1e4]
    assert config.embedding_scale == 8.0
    pattern = np.array([True, False, True, True, False, False, True])
    told = _build(file, {"gemma3.attention.sliding_window_pattern": pattern}, {}).config
    assert [layer.sliding_window > 0 for layer in told.layers] == pattern.tolist()


def test_the_older_spelling_of_linear_rope_scaling_is_honoured(make_tiny: MakeTiny) -> None:
    file = GGUFFile.open(make_tiny("llama").path)
    assert _build(file, {"llama.rope.scale_linear": 4.0}, {}).config.layers[0].rope.scale == 4.0
    keys: Keys = {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 2.0}
    assert _build(file, keys, {}).config.layers[0].rope.scale == 2.0
    keys = {"llama.rope.scaling.type": "none", "llama.rope.scaling.factor": 2.0}
    assert _build(file, keys, {}).config.layers[0].rope.scale == 1.0


def test_half_rotation_order_from_the_definition(make_tiny: MakeTiny) -> None:
    """Pair i of a head is rows (2i, 2i + 1) in the file and (i, i + R/2) in ours."""
    config = read_model_config(GGUFFile.open(make_tiny("llama").path))
    layer = config.layers[0]
    order = half_rotation_order(config.num_heads, layer)
    assert sorted(order) == list(range(config.num_heads * layer.head_dim))
    for head in range(config.num_heads):
        start = head * layer.head_dim
        for pair in range(layer.rope.rotary_dim // 2):
            assert order[start + pair] == start + 2 * pair
            assert order[start + pair + layer.rope.rotary_dim // 2] == start + 2 * pair + 1
