"""Rotary embedding and page writes: against float64, and fused against one after the other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from octavo.kernels import _native
from tests.kernels.harness import (
    F32,
    F64,
    I64,
    LEVELS,
    NONE,
    PAGE_TOKENS,
    OneKernel,
    StepArrays,
    columns,
    pages,
    vector,
)
from tests.kernels.paged import DTYPES, hadamard, rounded

pytestmark = pytest.mark.parametrize("level", LEVELS)

POSITIONS = np.array([0, 1, 2, 17, 255, 4095, 131071], np.int32)
EPS = 1e-6


def random(*shape: int, seed: int = 2) -> F32:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def frequencies(rotary_dim: int, base: float = 10000.0) -> F32:
    exponents = np.arange(0, rotary_dim, 2, dtype=np.float32) / np.float32(rotary_dim)
    return (1.0 / np.float32(base) ** exponents).astype(np.float32)


def angles_of(
    level: str,
    inverse: F32,
    positions: np.ndarray[tuple[int], np.dtype[np.int32]],
    scaling: float = 1.0,
) -> F32:
    kernel = OneKernel(level, 2)
    out = kernel.output(2 * len(inverse))
    step = StepArrays(len(positions), positions=positions)
    kernel.run("rope_angles", [vector(inverse)], [out], floats=[scaling], step=step)
    return kernel.read(out, len(positions))


@pytest.mark.parametrize("rotary_dim", [64, 16, 10])
@pytest.mark.parametrize("scaling", [1.0, 1.25])
def test_angles_are_cosines_then_sines_of_the_float32_product(
    level: str, rotary_dim: int, scaling: float
) -> None:
    inverse = frequencies(rotary_dim)
    product = (POSITIONS.astype(np.float32)[:, None] * inverse).astype(np.float64)
    expected = np.concatenate([np.cos(product), np.sin(product)], axis=1) * scaling
    result = angles_of(level, inverse, POSITIONS, scaling)
    np.testing.assert_allclose(result, expected, rtol=0, atol=2e-7)


def rotated(x: F32, angles: F32) -> F64:
    """x: [rows, heads, dim]; angles: [rows, R]."""
    half = angles.shape[1] // 2
    cosine, sine = (a[:, None].astype(np.float64) for a in (angles[:, :half], angles[:, half:]))
    first, second = x[..., :half], x[..., half : 2 * half]
    turned = [first * cosine - second * sine, second * cosine + first * sine]
    return np.concatenate([*turned, x[..., 2 * half :]], axis=-1)


@pytest.mark.parametrize(("dim", "rotary_dim"), [(64, 64), (128, 128), (64, 32), (32, 20)])
def test_rope_rotates_the_first_columns_of_each_head(level: str, dim: int, rotary_dim: int) -> None:
    x, rows = random(len(POSITIONS), 3 * dim), len(POSITIONS)
    angles = angles_of(level, frequencies(rotary_dim), POSITIONS)
    kernel = OneKernel(level, 2)
    value, turn = kernel.value(x), kernel.value(angles)
    kernel.run("rope", [value, turn], [value], [3, dim], step=StepArrays(rows))
    result = kernel.read(value, rows).reshape(rows, 3, dim)
    heads = x.reshape(rows, 3, dim)
    np.testing.assert_allclose(result, rotated(heads, angles), rtol=0, atol=1e-6)
    np.testing.assert_array_equal(result[..., rotary_dim:], heads[..., rotary_dim:])


HEADS, KV_HEADS, DIM, NUM_PAGES = 6, 2, 32, 5


def some_slots(rows: int) -> I64:
    every = np.random.default_rng(9).permutation(NUM_PAGES * PAGE_TOKENS)
    return every[:rows].astype(np.int64)


def read_tokens(cache: _native.KvCache, slots: I64) -> tuple[F32, F32]:
    """Keys and values at these slots, [slots, kv_heads, dim] each, by the documented layout."""
    num_pages = int(slots.max()) // PAGE_TOKENS + 1
    every = np.stack([cache.read_page(0, page) for page in range(num_pages)])
    page, offset = slots // PAGE_TOKENS, slots % PAGE_TOKENS
    keys = every[:, :, 0].reshape(num_pages, KV_HEADS, DIM, PAGE_TOKENS)
    values = every[:, :, 1].reshape(num_pages, KV_HEADS, PAGE_TOKENS, DIM)
    return keys[page, :, :, offset], values[page, :, offset]


@pytest.mark.parametrize("dtype", DTYPES)
def test_write_pages_puts_tokens_into_their_slots_and_nowhere_else(level: str, dtype: str) -> None:
    rows = 23
    k, v = random(rows, KV_HEADS * DIM, seed=1), random(rows, KV_HEADS * DIM, seed=2)
    cache = _native.KvCache(NUM_PAGES, [(KV_HEADS, DIM)], dtype)
    kernel, slots = OneKernel(level, 2), some_slots(rows)
    operands = [kernel.value(k), kernel.value(v), pages(cache), NONE]
    kernel.run("write_pages", operands, [], [0, 0], step=StepArrays(rows, slots=slots))
    keys, values = read_tokens(cache, slots)
    heads = k.reshape(keys.shape)
    written_keys = hadamard(heads) if dtype == "int8" else heads
    if dtype == "int16":
        # The sum of squares, and with it the scale, is another in its last bits.
        step = np.linalg.norm(heads, axis=-1, keepdims=True) / 32767
        assert (np.abs(keys - heads) <= 0.51 * step).all()
    else:
        np.testing.assert_array_equal(keys, rounded(written_keys, dtype))
    np.testing.assert_array_equal(values, rounded(v.reshape(values.shape), dtype))
    written = sum(np.count_nonzero(cache.read_page(0, page)) for page in range(NUM_PAGES))
    assert written == np.count_nonzero(keys) + np.count_nonzero(values)


def written(level: str, heads: F32, dtype: str) -> F32:
    """`heads` [tokens, KV_HEADS, DIM] as read from pages of `dtype`, [tokens, 2, KV_HEADS, DIM]."""
    cache = _native.KvCache(NUM_PAGES, [(KV_HEADS, DIM)], dtype)
    kernel, slots = OneKernel(level), some_slots(len(heads))
    flat = kernel.value(heads.reshape(len(heads), -1))
    step = StepArrays(len(heads), slots=slots)
    kernel.run("write_pages", [flat, flat, pages(cache), NONE], [], [0, 0], step=step)
    return np.stack(read_tokens(cache, slots), axis=1)


@pytest.mark.parametrize("dtype", ["int16", "int8"])
def test_integer_pages_hold_zeros_as_zero_and_tiny_vectors_as_zero_or_themselves(
    level: str, dtype: str
) -> None:
    heads = np.zeros((3, KV_HEADS, DIM), np.float32)
    heads[1, 0] = np.linspace(-1e-35, 1e-35, DIM)
    heads[2, 1, 5] = 1e-20
    held = written(level, heads, dtype)
    assert not held[:2].any()
    keys, values = held[2]
    assert not keys[0].any()
    if dtype == "int8":
        np.testing.assert_allclose(np.abs(keys[1]), 1e-20, rtol=1e-6)
    np.testing.assert_array_equal(np.argwhere(values), [[1, 5]])
    np.testing.assert_allclose(values[1, 5], 1e-20, rtol=1e-6)


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", ["int16", "int8"])
def test_integer_pages_hold_a_vector_that_is_not_finite_as_nan(
    level: str, number: float, dtype: str
) -> None:
    heads = random(4, KV_HEADS * DIM).reshape(4, KV_HEADS, DIM)
    heads[2, 1, 7] = number
    bad = np.zeros((4, 2, KV_HEADS), bool)
    bad[2, :, 1] = True
    held = written(level, heads, dtype)
    assert np.isnan(held[bad]).all()
    assert np.isfinite(held[~bad]).all()


def test_bfloat16_pages_round_every_kind_of_number_to_nearest_even(level: str) -> None:
    bits = np.random.default_rng(5).integers(0, 2**32, NUM_PAGES * PAGE_TOKENS * KV_HEADS * DIM)
    edges = [0x3F808000, 0x3F818000, 0x3F808001, 0x7F7FFFFF, 0x7F800000, 0xFF800000, 0x00000001]
    bits[: len(edges)] = edges
    heads = bits.astype(np.uint32).view(np.float32).reshape(-1, KV_HEADS, DIM)
    held = written(level, heads, "bfloat16")
    nan = np.isnan(heads)
    for one in (held[:, 0], held[:, 1]):
        assert (np.isnan(one) == nan).all()
        np.testing.assert_array_equal(one[~nan], rounded(heads, "bfloat16")[~nan])


TURNING = 5
"""Columns of each half that an offset of keys leaves alone."""


def key_offset(offset: F32 | None) -> _native.OperandSpec:
    return NONE if offset is None else vector(offset)


@dataclass(frozen=True)
class Prompt:
    """What comes out of a projection, where its tokens go, and what is done to it on the way."""

    qkv: F32
    angles: F32
    slots: I64
    norms: tuple[F32, F32] | None
    offset: F32 | None


def fused(level: str, prompt: Prompt, dtype: str) -> tuple[F32, F32, F32]:
    qkv, slots, norms = prompt.qkv, prompt.slots, prompt.norms
    cache = _native.KvCache(NUM_PAGES, [(KV_HEADS, DIM)], dtype)
    kernel = OneKernel(level, 2)
    value, turn = kernel.value(qkv), kernel.value(prompt.angles)
    weights = [NONE, NONE] if norms is None else [vector(w) for w in norms]
    kernel.run(
        "rope_write_pages",
        [value, turn, pages(cache), *weights, key_offset(prompt.offset)],
        [value],
        [HEADS, KV_HEADS, DIM, TURNING],
        [EPS],
        step=StepArrays(len(qkv), slots=slots),
    )
    return kernel.read(value, len(qkv))[:, : HEADS * DIM], *read_tokens(cache, slots)


def one_by_one(level: str, prompt: Prompt, dtype: str) -> tuple[F32, F32, F32]:
    qkv, slots, norms = prompt.qkv, prompt.slots, prompt.norms
    q, k, v = np.split(qkv, [HEADS * DIM, (HEADS + KV_HEADS) * DIM], axis=1)
    step = StepArrays(len(qkv), slots=slots)

    def prepared(x: F32, heads: int, norm: F32 | None) -> F32:
        if norm is not None:
            kernel = OneKernel(level)
            value = kernel.value(x)
            operands = [value, vector(norm)]
            kernel.run("head_rms_norm", operands, [value], [heads, DIM], [EPS], step=step)
            x = kernel.read(value, len(x))
        kernel = OneKernel(level)
        value = kernel.value(x)
        kernel.run("rope", [value, kernel.value(prompt.angles)], [value], [heads, DIM], step=step)
        return kernel.read(value, len(x))

    cache = _native.KvCache(NUM_PAGES, [(KV_HEADS, DIM)], dtype)
    kernel = OneKernel(level)
    q = prepared(q, HEADS, norms[0] if norms else None)
    k = prepared(k, KV_HEADS, norms[1] if norms else None)
    operands = [kernel.value(k), kernel.value(v), pages(cache), key_offset(prompt.offset)]
    kernel.run("write_pages", operands, [], [DIM, TURNING], step=step)
    return q, *read_tokens(cache, slots)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("with_norms", "with_offset"), [(False, False), (True, False), (False, True)]
)
def test_rope_write_pages_equals_its_parts(
    level: str, dtype: str, with_norms: bool, with_offset: bool
) -> None:
    rows = 37
    qkv, slots = random(rows, (HEADS + 2 * KV_HEADS) * DIM), some_slots(rows)
    positions = np.arange(100, 100 + rows, dtype=np.int32)
    angles = angles_of(level, frequencies(DIM), positions)
    norms = (random(DIM, seed=3), random(DIM, seed=4)) if with_norms else None
    offset = random(KV_HEADS * DIM, seed=5) if with_offset else None
    prompt = Prompt(qkv, angles, slots, norms, offset)
    for one, other in zip(
        fused(level, prompt, dtype), one_by_one(level, prompt, dtype), strict=True
    ):
        np.testing.assert_array_equal(one, other)


def test_keys_are_kept_less_their_offset_in_columns_that_hardly_turn(level: str) -> None:
    rows, rotary = 9, DIM // 2
    k, v = random(rows, KV_HEADS * DIM, seed=1), random(rows, KV_HEADS * DIM, seed=2)
    offset = random(KV_HEADS * DIM, seed=3)
    cache = _native.KvCache(NUM_PAGES, [(KV_HEADS, DIM)], "float32")
    kernel, slots = OneKernel(level), some_slots(rows)
    operands = [kernel.value(k), kernel.value(v), pages(cache), vector(offset)]
    step = StepArrays(rows, slots=slots)
    kernel.run("write_pages", operands, [], [rotary, TURNING], step=step)
    half = rotary // 2
    is_still = np.ones(DIM, bool)
    is_still[:TURNING] = is_still[half : half + TURNING] = False
    keys, values = read_tokens(cache, slots)
    heads, losses = k.reshape(keys.shape), offset.reshape(KV_HEADS, DIM)
    np.testing.assert_array_equal(keys, np.where(is_still, heads - losses, heads))
    np.testing.assert_array_equal(values, v.reshape(values.shape))


def test_write_pages_reads_columns_of_a_wider_row(level: str) -> None:
    rows = 9
    kv = random(rows, 2 * KV_HEADS * DIM)
    cache = _native.KvCache(NUM_PAGES, [(KV_HEADS, DIM)], "float32")
    kernel, slots = OneKernel(level), some_slots(rows)
    value, width = kernel.value(kv), KV_HEADS * DIM
    operands = [columns(value, 0, width), columns(value, width, width), pages(cache), NONE]
    kernel.run("write_pages", operands, [], [0, 0], step=StepArrays(rows, slots=slots))
    keys, values = read_tokens(cache, slots)
    np.testing.assert_array_equal(keys.reshape(rows, -1), kv[:, :width])
    np.testing.assert_array_equal(values.reshape(rows, -1), kv[:, width:])
