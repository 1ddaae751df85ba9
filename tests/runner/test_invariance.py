"""The same logits, bit for bit, whatever else runs and however a sequence's tokens are cut.

Alone = batched = chunked = on shared pages = recomputed after preemption, for 1 and 2 threads, on
every level. Quantised weights; pages of int16 (what users run) and of float16.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from octavo.kernels._native import isa_levels
from tests.models.checks import F32, sequence_of, step_of
from tests.models.native import NativeModel, NativeOptions
from tests.models.tiny import MIXED, VOCABULARY, write_tiny

TINY = ("llama", "qwen2", "gemma3")
NUM_TINY_TOKENS = 300
"""More than one piece of attention (256 tokens), and many windows of the tiny gemma3 (20)."""
CHUNK_SIZES = (1, 7, 64)
KV_DTYPES = ("int16", "float16")

Run = Callable[[NativeModel, list[int]], F32]


def whole(native: NativeModel, ids: list[int]) -> F32:
    return native.logits(step_of((sequence_of(ids), 0, len(ids))))


def in_chunks(native: NativeModel, ids: list[int], size: int) -> F32:
    sequence = sequence_of(ids, first_page=5)
    starts = range(0, len(ids), size)
    steps = [step_of((sequence, start, min(start + size, len(ids)))) for start in starts]
    return np.concatenate([native.logits(step) for step in steps])


def in_a_crowd(native: NativeModel, ids: list[int]) -> F32:
    """Chunks of 50 between the decodes and chunks of others, which come and go."""
    sequence = sequence_of(ids, first_page=30)
    others = [sequence_of(ids[n : n + 120], first_page=60 + 10 * n) for n in range(3)]
    native.logits(step_of(*((other, 0, 60) for other in others)))
    got = []
    for turn, start in enumerate(range(0, len(ids), 50)):
        stop = min(start + 50, len(ids))
        decodes = [(other, 60 + turn, 61 + turn) for other in others[: 1 + turn % 3]]
        chunk = sequence_of(ids[:40], first_page=100)
        step = step_of(*decodes, (sequence, start, stop), (chunk, 0, 5 + turn))
        rows = slice(len(decodes), len(decodes) + stop - start)
        got.append(native.logits(step)[rows])
    return np.concatenate(got)


def on_shared_pages(native: NativeModel, ids: list[int]) -> F32:
    """Another sequence computed the first 32 tokens; this one has its pages and the rest."""
    first = sequence_of([*ids[:32], 1, 2, 3], first_page=7)
    beginning = native.logits(step_of((first, 0, 35)))[:32]
    second = sequence_of(ids, first_page=40)
    second.page_table[:2] = first.page_table[:2]
    return np.concatenate([beginning, native.logits(step_of((second, 32, len(ids))))])


def after_preemption(native: NativeModel, ids: list[int]) -> F32:
    """Half of it was computed once, its pages went to others, and it starts again elsewhere."""
    native.logits(step_of((sequence_of(ids, first_page=0), 0, len(ids) // 2)))
    native.logits(step_of((sequence_of(ids[::-1], first_page=0), 0, len(ids))))
    table = sequence_of(ids, first_page=20)
    table.page_table.reverse()
    return native.logits(step_of((table, 0, len(ids))))


RUNS: dict[str, Run] = {
    "in a crowd": in_a_crowd,
    "on shared pages": on_shared_pages,
    "after preemption": after_preemption,
}


def _check(
    path: Path, ids: list[int], level: str, kv_dtype: str, chunk_sizes: Sequence[int]
) -> None:
    def native(num_threads: int) -> NativeModel:
        options = NativeOptions(level=level, kv_dtype=kv_dtype, num_threads=num_threads)
        return NativeModel(path, options)

    alone = whole(native(1), ids)
    assert np.isfinite(alone).all()
    for num_threads in (1, 2):
        model = native(num_threads)
        assert np.array_equal(whole(model, ids), alone), f"whole, {num_threads} threads"
        for size in chunk_sizes:
            got = in_chunks(model, ids, size)
            assert np.array_equal(got, alone), f"chunks of {size}, {num_threads} threads"
        for name, run in RUNS.items():
            assert np.array_equal(run(model, ids), alone), f"{name}, {num_threads} threads"


@pytest.mark.parametrize("level", isa_levels())
@pytest.mark.parametrize("kv_dtype", KV_DTYPES)
@pytest.mark.parametrize("name", TINY)
def test_logits_of_tiny_models_never_change(
    name: str, kv_dtype: str, level: str, tmp_path: Path
) -> None:
    ids = np.random.default_rng(3).integers(0, VOCABULARY, NUM_TINY_TOKENS).tolist()
    _check(write_tiny(name, tmp_path, MIXED).path, ids, level, kv_dtype, CHUNK_SIZES)


@pytest.mark.real_model
@pytest.mark.parametrize("kv_dtype", KV_DTYPES)
@pytest.mark.parametrize("level", [level for level in isa_levels() if level != "scalar"])
def test_logits_of_a_real_model_never_change(level: str, kv_dtype: str, smollm2_path: Path) -> None:
    ids = np.random.default_rng(3).integers(100, 40000, 80).tolist()
    _check(smollm2_path, ids, level, kv_dtype, CHUNK_SIZES)
