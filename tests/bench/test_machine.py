"""The machine's probes run at every level and give possible figures; the fingerprint is whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from octavo.bench.fingerprint import commit_of, fingerprint
from octavo.kernels._native import (
    ThreadPool,
    isa_levels,
    measure_arithmetic_rates,
    measure_read_rate,
)

HAVE_BF16_PRODUCTS = {"avx512_bf16", "amx"}


@pytest.mark.parametrize("level", isa_levels())
@pytest.mark.parametrize("threads", [1, 3])
def test_rates_are_possible(level: str, threads: int) -> None:
    """No processor does a millionth or a million times what these do."""
    pool = ThreadPool(threads)
    assert 1e7 < measure_read_rate(pool, level, 1 << 20, 2) < 1e13
    int8, f32, bf16 = measure_arithmetic_rates(pool, level, 0.001, 2)
    assert 1e7 < int8 < 1e16
    assert 1e6 < f32 < 1e15
    assert bf16 == f32 or level in HAVE_BF16_PRODUCTS
    assert 1e6 < bf16 < 1e16


def test_impossible_measurements_are_refused() -> None:
    pool = ThreadPool(2)
    level = isa_levels()[0]
    with pytest.raises(ValueError, match="512 bytes"):
        measure_read_rate(pool, level, 1023, 1)
    with pytest.raises(ValueError, match="one pass"):
        measure_read_rate(pool, level, 1 << 20, 0)
    with pytest.raises(ValueError, match="seconds above 0"):
        measure_arithmetic_rates(pool, level, 0.0, 1)
    with pytest.raises(ValueError, match='level is "x"'):
        measure_read_rate(pool, "x", 1 << 20, 1)


def test_a_fingerprint_tells_machine_and_version() -> None:
    mark = fingerprint(3, "scalar")
    assert (mark.threads, mark.isa_level) == (3, "scalar")
    assert fingerprint(1).isa_level == isa_levels()[0]
    assert mark.num_cores >= 1
    assert mark.memory_bytes > 1 << 20
    assert mark.processor


def test_a_folder_outside_git_has_no_commit(tmp_path: Path) -> None:
    assert commit_of(tmp_path) == ""
