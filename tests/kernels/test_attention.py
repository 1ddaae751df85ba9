"""The paged attention kernel: against the plain formula in float64, and bit for bit against itself
under every way of batching, chunking and sharing the same rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from octavo.kernels import _native as native
from tests.kernels.harness import F32, LEVELS, OneKernel, StepArrays, pages
from tests.kernels.paged import DTYPES, GREATEST_CODE, Chunk, Contexts, Shape

pytestmark = pytest.mark.parametrize("level", LEVELS)

WINDOWS = [1, 5, 16, 300]
# Heads, key/value heads, head size: of SmolLM2, Qwen2.5 0.5B and 1.5B, gemma-3, and an odd one.
MODEL_SHAPES = [(9, 3, 64), (14, 2, 64), (12, 2, 128), (4, 1, 256), (3, 3, 80), (40, 1, 16)]
CONTEXTS = [*range(1, 41), *range(255, 259), *range(511, 514), 1000]


def check_rows(contexts: Contexts, chunk: Chunk, result: F32) -> None:
    expected = [contexts.expected(chunk.sequence, chunk.start + i) for i in range(chunk.num_tokens)]
    # Integer pages: queries have 16 bits, softmax weights 15, of the greatest in 256 tokens.
    rtol, atol = (1e-4, 8e-4) if contexts.shape.dtype in GREATEST_CODE else (1e-5, 4e-6)
    np.testing.assert_allclose(result, np.stack(expected), rtol=rtol, atol=atol)


def last_rows(contexts: Contexts) -> list[Chunk]:
    return [Chunk(s, len(k) - 1, 1) for s, k in enumerate(contexts.keys)]


@pytest.mark.parametrize("dtype", ["float32", "int16", "int8"])
@pytest.mark.parametrize(("heads", "kv_heads", "head_dim"), MODEL_SHAPES)
def test_prefill_matches_float64(
    level: str, heads: int, kv_heads: int, head_dim: int, dtype: str
) -> None:
    contexts = Contexts(Shape(heads, kv_heads, head_dim, dtype=dtype), [75])
    chunk = Chunk(0, 0, 75)
    check_rows(contexts, chunk, contexts.attend([chunk], level)[0])


@pytest.mark.parametrize("dtype", ["float32", "int16", "int8"])
def test_decode_matches_float64_at_every_context_length(level: str, dtype: str) -> None:
    contexts = Contexts(Shape(dtype=dtype), CONTEXTS)
    chunks = last_rows(contexts)
    for chunk, result in zip(chunks, contexts.attend(chunks, level), strict=True):
        check_rows(contexts, chunk, result)


@pytest.mark.parametrize("dtype", ["float32", "int16", "int8"])
@pytest.mark.parametrize("window", WINDOWS)
def test_sliding_windows_match_float64(level: str, window: int, dtype: str) -> None:
    contexts = Contexts(Shape(window=window, dtype=dtype), [340, 700])
    chunks = [Chunk(0, 0, 340), Chunk(1, 640, 60)]
    for chunk, result in zip(chunks, contexts.attend(chunks, level), strict=True):
        check_rows(contexts, chunk, result)


def test_a_layer_reads_the_entries_of_its_group_and_none_before_its_window(level: str) -> None:
    """Negative entries would be read far outside of the memory."""
    contexts = Contexts(Shape(window=100), [340])
    chunk = Chunk(0, 300, 40)
    (expected,) = contexts.attend([chunk], level)
    tables = np.full((1, 2 * contexts.tables.shape[1]), -1, np.int32)
    first_seen = (300 - 100 + 1) // 16
    tables[:, 2 * first_seen + 1 :: 2] = contexts.tables[:, first_seen:]
    sizes = (contexts.shape.num_kv_heads, contexts.shape.head_dim)
    cache = native.KvCache(contexts.cache_pages, [sizes] * 2, "float32", [(0, 0), (1, 0)])
    content = np.empty(cache.page_bytes, np.uint8)
    for page in range(contexts.cache_pages):
        contexts.cache.save_page(page, content)
        cache.load_page(page, content)
    step = replace(contexts.step([chunk]), page_tables=tables, slots=np.zeros((40, 2), np.int64))
    np.testing.assert_array_equal(attend_layer(contexts, chunk, level, cache, step), expected)
    with pytest.raises(ValueError, match=r"pages of 1 groups of layers; the program's .* of 2"):
        attend_layer(contexts, chunk, level, cache, contexts.step([chunk]))


def attend_layer(
    contexts: Contexts, chunk: Chunk, level: str, cache: native.KvCache, step: StepArrays
) -> F32:
    """As `Contexts.attend`, in layer 1 of another memory."""
    shape, kernel = contexts.shape, OneKernel(level)
    queries = contexts.queries[0][chunk.start : chunk.start + chunk.num_tokens]
    inputs = [kernel.value(queries.reshape(chunk.num_tokens, -1)), pages(cache, 1)]
    out = kernel.output(shape.num_heads * shape.head_dim)
    ints = [shape.num_heads, shape.num_kv_heads, shape.head_dim, shape.window]
    kernel.run("attention", inputs, [out], ints, [shape.scale, shape.softcap], step=step)
    return kernel.read(out, chunk.num_tokens)


@pytest.mark.parametrize("dtype", DTYPES)
def test_softcapped_scores_over_every_page_type_match_float64(level: str, dtype: str) -> None:
    contexts = Contexts(Shape(softcap=1.5, dtype=dtype), [290])
    chunk = Chunk(0, 230, 60)
    check_rows(contexts, chunk, contexts.attend([chunk], level)[0])


def whole(contexts: Contexts, level: str, num_threads: int = 1) -> list[F32]:
    chunks = [Chunk(s, 0, len(k)) for s, k in enumerate(contexts.keys)]
    return contexts.attend(chunks, level, num_threads)


EQUALITY_SHAPES = [
    Shape(9, 3, 64, dtype="float16"),
    Shape(4, 1, 32, window=100, dtype="bfloat16"),
    Shape(14, 2, 16, softcap=2.0),
    Shape(9, 3, 64, dtype="int16"),
    Shape(14, 2, 16, softcap=2.0, window=100, dtype="int16"),
    Shape(9, 3, 64, dtype="int8"),
    Shape(12, 2, 128, softcap=2.0, dtype="int8"),
    Shape(4, 1, 256, window=100, dtype="int8"),
]


@pytest.mark.parametrize("shape", EQUALITY_SHAPES, ids=str)
def test_a_row_alone_equals_the_row_in_a_prompt(level: str, shape: Shape) -> None:
    contexts = Contexts(shape, [530])
    prompt = whole(contexts, level)[0]
    for position in [*range(0, 530, 23), 255, 256, 257, 511, 512, 529]:
        alone = contexts.attend([Chunk(0, position, 1)], level)[0][0]
        np.testing.assert_array_equal(alone, prompt[position])


@pytest.mark.parametrize("chunk_tokens", [1, 7, 64])
@pytest.mark.parametrize("shape", EQUALITY_SHAPES, ids=str)
def test_chunked_equals_whole(level: str, shape: Shape, chunk_tokens: int) -> None:
    length = 300 if chunk_tokens == 1 else 530
    contexts = Contexts(shape, [length])
    starts = range(0, length, chunk_tokens)
    chunks = [Chunk(0, start, min(chunk_tokens, length - start)) for start in starts]
    results = [contexts.attend([chunk], level)[0] for chunk in chunks]
    np.testing.assert_array_equal(np.concatenate(results), whole(contexts, level)[0])


@pytest.mark.parametrize("shape", EQUALITY_SHAPES, ids=str)
def test_a_mixed_step_equals_each_sequence_alone(level: str, shape: Shape) -> None:
    contexts = Contexts(shape, [1, 17, 300, 600, 40])
    chunks = [Chunk(3, 599, 1), Chunk(0, 0, 1), Chunk(2, 299, 1), Chunk(4, 9, 31), Chunk(1, 0, 17)]
    together = contexts.attend(chunks, level)
    for chunk, result in zip(chunks, together, strict=True):
        np.testing.assert_array_equal(result, contexts.attend([chunk], level)[0])


@pytest.mark.parametrize("shape", EQUALITY_SHAPES, ids=str)
def test_two_threads_equal_one(level: str, shape: Shape) -> None:
    contexts = Contexts(shape, [300, 700])
    chunks = [Chunk(0, 0, 300), Chunk(1, 690, 10)]
    for _ in range(3):
        for one, two in zip(
            contexts.attend(chunks, level, 1), contexts.attend(chunks, level, 2), strict=True
        ):
            np.testing.assert_array_equal(one, two)


def test_pieces_are_merged_only_when_the_slowest_is_done(level: str) -> None:
    """The last items of the step are a full piece and a single token: whoever has the token soon
    has nothing left to do but to merge."""
    contexts = Contexts(Shape(12, 1, 256), [257])
    chunk = Chunk(0, 256, 1)
    alone = contexts.attend([chunk], level)[0]
    for _ in range(10):
        many = contexts.attend([chunk] * 8, level, 2)
        np.testing.assert_array_equal(np.concatenate(many), np.repeat(alone, 8, axis=0))


@pytest.mark.parametrize("dtype", ["float16", "int16", "int8"])
def test_where_the_pages_lie_does_not_matter(level: str, dtype: str) -> None:
    shape = Shape(9, 3, 64, dtype=dtype)
    one, other = Contexts(shape, [530]), Contexts(shape, [530])
    order = np.random.default_rng(7).permutation(one.cache_pages)
    other.move_pages(order)
    assert (one.tables != other.tables).any()
    np.testing.assert_array_equal(whole(one, level)[0], whole(other, level)[0])


def test_partial_results_beyond_the_shared_scratch_give_the_same_bits(level: str) -> None:
    """Of 15 rows that see 46 pieces of context, the last cannot be split among workers with
    AVX-512: the partial results of all would take more than 16 MiB."""
    contexts = Contexts(Shape(1, 1, 512, dtype="int8"), [46 * 256])
    chunk = Chunk(0, 46 * 256 - 1, 1)
    alone = contexts.attend([chunk], level)[0]
    check_rows(contexts, chunk, alone)
    many = contexts.attend([chunk] * 15, level, 2)
    np.testing.assert_array_equal(np.concatenate(many), np.repeat(alone, 15, axis=0))


@pytest.mark.parametrize(("group", "rows"), [(3, 1), (3, 50), (7, 13)])
@pytest.mark.parametrize("dtype", ["float32", "int16"])
def test_quantised_attention_equals_attention_and_quantise(
    level: str, group: int, rows: int, dtype: str
) -> None:
    contexts = Contexts(Shape(2 * group, 2, 64, dtype=dtype), [300])
    chunk = Chunk(0, 300 - rows, rows)
    apart = contexts.attend_quantized([chunk], level, is_fused=False)
    np.testing.assert_array_equal(contexts.attend_quantized([chunk], level, is_fused=True), apart)


@pytest.mark.parametrize("dtype", DTYPES)
def test_nan_in_one_sequence_stays_in_it(level: str, dtype: str) -> None:
    contexts = Contexts(Shape(dtype=dtype), [40, 40])
    contexts.queries[0][20] = np.nan
    broken, other = whole(contexts, level)
    assert np.isnan(broken[20]).all()
    assert np.isfinite(np.delete(broken, 20, axis=0)).all()
    assert np.isfinite(other).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_later_token_that_is_not_finite_leaves_earlier_rows_alone(level: str, dtype: str) -> None:
    contexts = Contexts(Shape(dtype=dtype), [40])
    before = whole(contexts, level)[0]
    contexts.poison(0, 25, np.inf)
    after = whole(contexts, level)[0]
    np.testing.assert_array_equal(after[:25], before[:25])
    assert not np.isfinite(after[25:]).all()


def test_huge_scores_do_not_overflow(level: str) -> None:
    contexts = Contexts(Shape(), [300])
    contexts.queries[0] *= np.float32(1e4)
    chunk = Chunk(0, 280, 20)
    result = contexts.attend([chunk], level)[0]
    check_rows(contexts, chunk, result)


@st.composite
def steps(draw: st.DrawFn) -> tuple[Shape, list[int], list[Chunk]]:
    kv_heads = draw(st.integers(1, 3))
    shape = Shape(
        num_heads=kv_heads * draw(st.integers(1, 7)),
        num_kv_heads=kv_heads,
        head_dim=draw(st.sampled_from([16, 48, 64])),
        window=draw(st.sampled_from([0, 0, *WINDOWS])),
        softcap=draw(st.sampled_from([0.0, 3.0])),
        dtype=draw(st.sampled_from(DTYPES)),
    )
    lengths = draw(st.lists(st.integers(1, 600), min_size=1, max_size=4))
    chunks = []
    for s, length in enumerate(lengths):
        num_tokens = draw(st.integers(1, min(length, 40)))
        chunks.append(Chunk(s, length - num_tokens, num_tokens))
    return shape, lengths, chunks


@settings(max_examples=15, deadline=None)
@given(steps(), st.integers(0, 2**31))
def test_any_ragged_step(level: str, case: tuple[Shape, list[int], list[Chunk]], seed: int) -> None:
    shape, lengths, chunks = case
    contexts = Contexts(shape, lengths, seed)
    together = contexts.attend(chunks, level, 2)
    for chunk, result in zip(chunks, together, strict=True):
        check_rows(contexts, chunk, result)
        last = Chunk(chunk.sequence, chunk.start + chunk.num_tokens - 1, 1)
        np.testing.assert_array_equal(contexts.attend([last], level)[0][0], result[-1])
