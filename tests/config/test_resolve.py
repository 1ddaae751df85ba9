"""Automatic decisions follow the model and the machine, and each one tells its reason."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from octavo.config.engine import EngineConfig
from octavo.config.machine import Machine
from octavo.config.resolve import Resolved, resolve
from octavo.core.model_config import LayerConfig, ModelConfig, RopeConfig
from octavo.errors import ConfigError

LEVELS = ("avx512_vnni", "avx2", "scalar")
GIB = 1 << 30


def model(num_layers: int = 30, max_context_tokens: int = 8192) -> ModelConfig:
    rope = RopeConfig(theta=1e4, rotary_dim=64)
    layer = LayerConfig(num_kv_heads=3, head_dim=64, rope=rope)
    return ModelConfig(
        architecture="llama",
        vocab_size=49152,
        hidden_size=576,
        intermediate_size=1536,
        num_heads=9,
        layers=(layer,) * num_layers,
        max_context_tokens=max_context_tokens,
        norm_eps=1e-5,
        attention_scale=0.125,
    )


def resolved(
    config: EngineConfig, facts: ModelConfig | None = None, memory_bytes: int = 16 * GIB
) -> Resolved:
    machine = Machine(num_cores=2, memory_bytes=memory_bytes)
    return resolve(config, facts or model(), machine, LEVELS)


def test_every_option_gets_a_value_and_a_reason() -> None:
    result = resolved(EngineConfig())
    for item in fields(EngineConfig):
        assert getattr(result.config, item.name) is not None
        assert result.reasons[item.name]
    config = result.config
    assert (config.threads, config.isa, config.kv_cache_dtype) == (2, "avx512_vnni", "int16")
    assert config.max_model_len == 8192
    assert config.kv_cache_memory == 64 * 512 * model().kv_bytes_per_token("int16")


def test_what_is_given_is_kept() -> None:
    given = EngineConfig(
        threads=1,
        isa="scalar",
        kv_cache_dtype="bfloat16",
        max_model_len=100,
        kv_cache_memory=GIB,
        swap_space=1000,
        max_num_seqs=3,
        pooling_type="mean",
    )
    result = resolved(given)
    assert result.config == given
    assert result.reasons["threads"] == "given"


def test_a_page_holds_keys_and_values_of_all_layers() -> None:
    assert model(num_layers=2).kv_bytes_per_token("float16") == 2 * 2 * 3 * 64 * 2
    assert model(num_layers=2).kv_bytes_per_token("float32") == 2 * 2 * 3 * 64 * 4
    assert model(num_layers=2).kv_bytes_per_token("int8") == 2 * 2 * 3 * (64 + 4)


def test_int8_pages_may_be_asked_for_by_vllms_name() -> None:
    result = resolved(EngineConfig(kv_cache_dtype="int8_per_token_head"))
    assert result.config == resolved(EngineConfig(kv_cache_dtype="int8")).config
    assert "int8_per_token_head" in result.reasons["kv_cache_dtype"]


def test_full_precision_weights_get_full_precision_keys() -> None:
    assert resolved(EngineConfig(dtype="float32")).config.kv_cache_dtype == "float32"


@pytest.mark.parametrize(("own", "length"), [(2048, 2048), (8192, 8192), (131072, 8192)])
def test_the_context_is_the_models_up_to_a_limit(own: int, length: int) -> None:
    result = resolved(EngineConfig(), model(max_context_tokens=own))
    assert result.config.max_model_len == length


def test_a_long_context_must_be_asked_for() -> None:
    result = resolved(EngineConfig(max_model_len=100_000), model(max_context_tokens=131072))
    assert result.config.max_model_len == 100_000


def test_memory_has_room_for_one_full_context() -> None:
    result = resolved(EngineConfig(max_num_seqs=1))
    assert result.config.kv_cache_memory == 8192 * model().kv_bytes_per_token("int16")


def test_memory_is_a_bounded_share_of_the_machines() -> None:
    result = resolved(EngineConfig(), memory_bytes=GIB)
    assert result.config.kv_cache_memory == GIB // 4


def test_little_memory_shortens_the_context() -> None:
    token_bytes = model().kv_bytes_per_token("int16")
    result = resolved(EngineConfig(kv_cache_memory=1000 * token_bytes))
    assert result.config.max_model_len == 992
    assert "hold" in result.reasons["max_model_len"]


def test_a_context_that_memory_cannot_hold_is_refused() -> None:
    token_bytes = model().kv_bytes_per_token("int16")
    EngineConfig(max_model_len=1001)
    exact = EngineConfig(max_model_len=1001, kv_cache_memory=1008 * token_bytes)
    assert resolved(exact).config.max_model_len == 1001
    with pytest.raises(ConfigError, match="--kv-cache-memory is"):
        resolved(EngineConfig(max_model_len=1001, kv_cache_memory=1008 * token_bytes - 1))


def test_more_memory_than_the_machine_has_is_refused() -> None:
    assert resolved(EngineConfig(kv_cache_memory=GIB), memory_bytes=GIB).config
    with pytest.raises(ConfigError, match=f"--kv-cache-memory is {GIB + 1} .* has {GIB}$"):
        resolved(EngineConfig(kv_cache_memory=GIB + 1), memory_bytes=GIB)


def test_the_swap_space_is_half_of_the_pages_memory_unless_it_is_given() -> None:
    pages_bytes = resolved(EngineConfig()).config.kv_cache_memory
    assert pages_bytes is not None
    assert resolved(EngineConfig()).config.swap_space == pages_bytes // 2
    assert resolved(EngineConfig(swap_space=0)).config.swap_space == 0


def test_more_swap_space_than_memory_needs_a_folder() -> None:
    config = EngineConfig(swap_space=2 * GIB, swap_dir="/somewhere")
    assert resolved(config, memory_bytes=GIB).config.swap_space == 2 * GIB
    with pytest.raises(ConfigError, match=f"--swap-space is {2 * GIB} bytes; .* has {GIB} "):
        resolved(replace(config, swap_dir=""), memory_bytes=GIB)


def test_memory_below_one_page_is_refused() -> None:
    with pytest.raises(ConfigError, match="no page"):
        resolved(EngineConfig(kv_cache_memory=100))


def test_a_context_beyond_the_models_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"--max-model-len is 8193; .* at most 8192"):
        resolved(EngineConfig(max_model_len=8193))


def test_a_level_that_the_machine_lacks_is_refused() -> None:
    with pytest.raises(ConfigError, match="'avx512'; this machine and build have avx512_vnni"):
        resolved(EngineConfig(isa="avx512"))
