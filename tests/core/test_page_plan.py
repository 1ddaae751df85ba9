"""Layers that see a window stand apart from those that see all, in groups of one size."""

from __future__ import annotations

import pytest

from octavo.core.model_config import LayerConfig, ModelConfig, RopeConfig
from octavo.core.page_plan import plan_pages

ROPE = RopeConfig(theta=1e4, rotary_dim=16)


def model(windows: list[int], kv_heads: dict[int, int] | None = None) -> ModelConfig:
    layers = (
        LayerConfig(
            num_kv_heads=(kv_heads or {}).get(window, 1),
            head_dim=256,
            rope=ROPE,
            sliding_window=window,
        )
        for window in windows
    )
    return ModelConfig(
        architecture="gemma3",
        vocab_size=100,
        hidden_size=640,
        intermediate_size=2048,
        num_heads=4,
        layers=tuple(layers),
        max_context_tokens=32768,
        norm_eps=1e-6,
        attention_scale=0.0625,
    )


GEMMA = model(([512] * 5 + [0]) * 3)
"""Like gemma-3-270m."""


def test_gemma_3_has_one_group_of_full_attention_and_five_with_windows() -> None:
    plan = plan_pages(GEMMA, "int16", 8192, 2048)
    assert plan.groups.windows == (0, 512, 512, 512, 512, 512)
    assert plan.page_bytes == 16 * 3 * 2 * (256 * 2 + 4)
    assert [plan.places[layer] for layer in (5, 11, 17)] == [(0, 0), (0, 1), (0, 2)]
    assert plan.places[:5] == ((1, 0), (1, 1), (1, 2), (2, 0), (2, 1))
    assert len(set(plan.places)) == 18


def test_a_sequence_of_8192_tokens_takes_two_fifths_of_what_full_attention_would() -> None:
    """While it reads its prompt in chunks of 2048; an answer, a fifth."""
    plan = plan_pages(GEMMA, "int16", 8192, 2048)
    full = 8192 * GEMMA.kv_bytes_per_token("int16")
    assert 0.42 < plan.sequence_bytes(8192) / full < 0.44
    held = [513 - plan.groups.first_kept(group, 512) for group in range(6)]
    assert 0.22 < sum(held) * plan.page_bytes / full < 0.23


@pytest.mark.parametrize("windows", [[0] * 18, [4096] * 18, [8192] * 18, [0, 9000] * 9])
def test_layers_that_are_alike_share_pages(windows: list[int]) -> None:
    plan = plan_pages(model(windows), "int16", 8192, 2048)
    assert plan.groups.num == 1
    assert plan.groups.windows == ((4096,) if windows[0] == 4096 else (0,))
    assert plan.places == tuple((0, shelf) for shelf in range(18))


def test_a_context_within_the_window_needs_no_groups() -> None:
    assert plan_pages(GEMMA, "int16", 512, 2048).groups.windows == (0,)


def test_a_group_with_fewer_layers_leaves_a_shelf_empty() -> None:
    """Like gemma-3-1b: 4 layers of full attention among 26."""
    windows = [0 if layer % 6 == 5 else 512 for layer in range(26)]
    plan = plan_pages(model(windows), "int16", 8192, 2048)
    assert plan.groups.windows == (0, *[512] * 6)
    assert plan.page_bytes == 16 * 4 * 2 * (256 * 2 + 4)
    assert [sum(group == g for group, _ in plan.places) for g in range(7)] == [4, 4, 4, 4, 4, 4, 2]


def test_a_shelf_takes_what_its_largest_layer_takes() -> None:
    plan = plan_pages(model([0, 100, 0, 100], {0: 2}), "float16", 8192, 64)
    assert plan.groups.windows == (0, 100)
    assert plan.page_bytes == 16 * 2 * 2 * 2 * 256 * 2
    wide = plan_pages(model([0, 100, 0, 100], {0: 9}), "float16", 200, 64)
    assert wide.groups.windows == (0,), "windows would save less than equal pages cost"


def test_bytes_hold_as_long_a_sequence_as_they_say() -> None:
    plan = plan_pages(GEMMA, "int16", 8192, 2048)
    for num_tokens in (16, 1000, 8192):
        num_bytes = plan.sequence_bytes(num_tokens)
        assert plan.max_tokens(num_bytes, 8192) == min(-(-num_tokens // 16) * 16, 8192)
        assert plan.max_tokens(num_bytes - 1, 8192) < num_tokens
