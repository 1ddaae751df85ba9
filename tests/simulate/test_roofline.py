"""Step times out of data sheets: each part of the roofline, computed by hand."""

from __future__ import annotations

import pytest

from octavo.core.step_load import StepLoad
from octavo.errors import ConfigError
from octavo.simulate.accelerators import ACCELERATORS, find_accelerator
from octavo.simulate.model_shapes import MODEL_SHAPES, find_shape
from octavo.simulate.roofline import Deployment, Efficiency, RooflineTimes

PERFECT = Efficiency(
    memory=1,
    compute=1,
    link=1,
    pipeline=1,
    step_seconds=0,
    sequence_seconds=0,
    ring_base_seconds=0,
    ring_hop_seconds=0,
)
A100 = find_accelerator("a100-80gb")
LLAMA = find_shape("llama-8b", {})
OPT = find_shape("opt-175b", {})


def decode(batch: int, context: int) -> StepLoad:
    return StepLoad(batch, batch, batch, batch * context, 0, batch * context)


def prompt(num_tokens: int) -> StepLoad:
    attended = num_tokens * (num_tokens + 1) // 2
    return StepLoad(num_tokens, 1, 1, 0, attended, num_tokens)


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        *(("llama-8b", 8.03), ("llama-2-13b", 13.0), ("llama-70b", 70.6), ("llama-405b", 405.8)),
        *(("opt-13b", 12.8), ("gpt3-175b", 174.6), ("smollm2-135m", 0.1345)),
        *(("qwen2.5-0.5b", 0.494), ("qwen2.5-7b", 7.62)),
    ],
)
def test_models_have_their_published_sizes(name: str, billions: float) -> None:
    assert MODEL_SHAPES[name].num_parameters / 1e9 == pytest.approx(billions, rel=0.01)


def test_one_decode_reads_the_weights_once() -> None:
    times = RooflineTimes(Deployment(device=A100, shape=LLAMA, efficiency=PERFECT))
    read = LLAMA.num_parameters - LLAMA.output_parameters  # the embedding table is not read
    assert times.seconds(decode(1, 1)) == pytest.approx(2 * read / 2039e9, rel=1e-3)


def test_a_long_prompt_is_bound_by_arithmetic() -> None:
    times = RooflineTimes(Deployment(device=A100, shape=LLAMA, efficiency=PERFECT))
    products = 2 * 2048 * LLAMA.num_layers * LLAMA.layer_parameters / 312e12
    attention = 4 * 32 * 32 * 128 * (2048 * 2049 / 2) / 312e12
    assert times.seconds(prompt(2048)) == pytest.approx(products + attention, rel=1e-2)


def test_keys_and_values_are_read_for_each_sequence() -> None:
    times = RooflineTimes(Deployment(device=A100, shape=LLAMA, efficiency=PERFECT))
    difference = times.seconds(decode(16, 4001)) - times.seconds(decode(16, 1))
    assert difference == pytest.approx(16 * 4000 * 2 * 32 * 8 * 128 * 2 / 2039e9, rel=1e-3)


def test_devices_share_the_weights_and_pay_for_talking() -> None:
    one = RooflineTimes(Deployment(device=A100, shape=LLAMA, efficiency=PERFECT))
    eight = RooflineTimes(Deployment(device=A100, shape=LLAMA, efficiency=PERFECT, tensor=8))
    talking = 2 * 32 * (2 * 7 / 8) * 4096 * 2 / 300e9
    expected = one.seconds(decode(1, 1)) / 8 + talking
    assert eight.seconds(decode(1, 1)) == pytest.approx(expected, rel=1e-2)


def test_small_all_reduces_cost_their_latency() -> None:
    slow = Efficiency(step_seconds=0, sequence_seconds=0, ring_base_seconds=1, ring_hop_seconds=0.1)
    times = RooflineTimes(Deployment(device=A100, shape=LLAMA, efficiency=slow, tensor=4))
    assert times.seconds(decode(1, 1)) == pytest.approx(64 * 1.6, rel=1e-2)


def test_a_pipeline_computes_as_much_in_a_step_as_its_stages_could() -> None:
    """Bound by arithmetic, four stages are four times as fast; bound by the weights, no faster."""
    one = RooflineTimes(Deployment(device=A100, shape=LLAMA, efficiency=PERFECT))
    four = RooflineTimes(Deployment(device=A100, shape=LLAMA, efficiency=PERFECT, pipeline=4))
    assert four.seconds(decode(4096, 1)) == pytest.approx(one.seconds(decode(4096, 1)) / 4, rel=0.1)
    assert four.seconds(decode(4, 1)) == pytest.approx(one.seconds(decode(4, 1)), rel=0.05)


def test_pages_are_what_weights_and_reserve_leave() -> None:
    one = Deployment(device=A100, shape=OPT, tensor=8)
    left = 8 * (0.9 * 80e9 - 2e9) - 2 * OPT.num_parameters
    assert one.kv_bytes_per_token == 2 * 96 * 12288 * 2
    assert one.num_pages == int(left / (16 * 2 * 96 * 12288 * 2))


def test_heads_are_copied_where_devices_outnumber_them() -> None:
    assert Deployment(device=A100, shape=LLAMA, tensor=16).kv_bytes_per_token == (
        2 * Deployment(device=A100, shape=LLAMA, tensor=8).kv_bytes_per_token
    )


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"shape": OPT}, "leave no room"),
        ({"tensor": 3}, "--tensor-parallel-size is 3"),
        ({"pipeline": 5}, "--pipeline-parallel-size is 5"),
        ({"dtype": "fp8"}, "--dtype is 'fp8'; a100-80gb computes with"),
        ({"dtype": "float12"}, "--dtype is 'float12'"),
        ({"kv_dtype": "float12"}, "--kv-cache-dtype is 'float12'"),
    ],
)
def test_what_cannot_be_is_refused(changes: dict[str, object], error: str) -> None:
    with pytest.raises(ConfigError, match=error):
        _ = Deployment(**{"device": A100, "shape": LLAMA, **changes}).num_pages  # type: ignore[arg-type]


def test_efficiencies_are_shares() -> None:
    with pytest.raises(ConfigError, match=r"--efficiency: memory is 1\.5"):
        Efficiency(memory=1.5)
    with pytest.raises(ConfigError, match="step_seconds is -1"):
        Efficiency(step_seconds=-1)


def test_unknown_names_are_answered_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="--device is 'abacus'; one of a100-40gb"):
        find_accelerator("abacus")
    with pytest.raises(ConfigError, match="--model is 'eliza'"):
        find_shape("eliza", {})
    with pytest.raises(ConfigError, match="names 'depth'"):
        find_shape("llama-8b", {"depth": 3})
    with pytest.raises(ConfigError, match="num_kv_heads is 5"):
        find_shape("llama-8b", {"num_kv_heads": 5})


def test_sizes_can_be_changed() -> None:
    half = find_shape("llama-8b", {"num_layers": 16})
    assert half.layer_parameters == LLAMA.layer_parameters
    assert half.num_parameters < 0.6 * LLAMA.num_parameters


@pytest.mark.parametrize("name", ACCELERATORS)
def test_a_larger_step_never_takes_less(name: str) -> None:
    device = find_accelerator(name)
    shape = find_shape("qwen2.5-0.5b", {})
    times = RooflineTimes(Deployment(device=device, shape=shape))
    seconds = [times.seconds(decode(batch, 100)) for batch in (1, 8, 64, 512)]
    assert seconds == sorted(seconds)
    assert times.assumptions
