import pytest

from octavo.core.model_config import KV_ELEMENT_BYTES, LayerConfig, ModelConfig, RopeConfig
from octavo.core.page_plan import plan_pages
from octavo.errors import ConfigError
from octavo.kernels._native import KvCache
from octavo.runner.memory import num_pages_for

ROPE = RopeConfig(theta=1e4, rotary_dim=16)
MODEL = ModelConfig(
    architecture="llama",
    vocab_size=100,
    hidden_size=64,
    intermediate_size=64,
    num_heads=4,
    layers=(
        LayerConfig(num_kv_heads=2, head_dim=16, rope=ROPE),
        LayerConfig(num_kv_heads=1, head_dim=32, rope=ROPE),
    ),
    max_context_tokens=1000,
    norm_eps=1e-5,
    attention_scale=0.25,
)


def page_bytes(model: ModelConfig, dtype: str) -> int:
    return plan_pages(model, dtype, 1000, 64).page_bytes


PLAN = plan_pages(MODEL, "float16", 160, 64)
LAYERS = [(layer.num_kv_heads, layer.head_dim) for layer in MODEL.layers]


@pytest.mark.parametrize(("dtype", "size"), [("float32", 4), ("float16", 2), ("bfloat16", 2)])
def test_a_page_holds_keys_and_values_of_sixteen_tokens_in_all_layers(
    dtype: str, size: int
) -> None:
    assert page_bytes(MODEL, dtype) == 2 * 16 * (2 * 16 + 32) * size


@pytest.mark.parametrize(("dtype", "size"), [("int16", 2), ("int8", 1)])
def test_a_page_of_integers_also_holds_a_scale_of_each_vector(dtype: str, size: int) -> None:
    assert page_bytes(MODEL, dtype) == 2 * 16 * ((2 * 16 + 32) * size + (2 + 1) * 4)


@pytest.mark.parametrize("dtype", KV_ELEMENT_BYTES)
def test_page_bytes_are_those_of_the_native_pages(dtype: str) -> None:
    assert KvCache(64, LAYERS, dtype).num_bytes == 64 * page_bytes(MODEL, dtype)


def test_pages_are_those_that_fit() -> None:
    size = PLAN.page_bytes
    assert num_pages_for(PLAN, 10 * size + size - 1, 160) == 10


def test_memory_for_less_than_one_full_sequence_is_refused() -> None:
    size = PLAN.page_bytes
    with pytest.raises(ConfigError, match=r"kv-cache-memory.*10 pages.*max-model-len 161.*11"):
        num_pages_for(PLAN, 10 * size, 161)
