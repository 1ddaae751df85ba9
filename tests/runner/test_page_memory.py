"""A page that went out and came back, or was copied, is the same bit for bit."""

from __future__ import annotations

import math
import os
import stat
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from octavo.core.schedule import MoveKind, PageMove
from octavo.errors import ConfigError
from octavo.kernels._native import KvCache
from octavo.runner.page_memory import NUM_MEASURED_PAGES, PageMemory, measure_move_seconds
from octavo.runner.swap_buffer import SwapBuffer

DTYPES = ("float32", "float16", "bfloat16", "int16", "int8")
LAYERS = [(2, 16), (1, 64), (3, 32)]
NUM_PAGES = 6


def make_memory(dtype: str, directory: Path | None = None) -> PageMemory:
    """Every page holds random bytes: NaNs and all, nothing may be changed on the way."""
    cache = KvCache(NUM_PAGES, LAYERS, dtype)
    memory = PageMemory(cache, SwapBuffer(3, cache.page_bytes, directory))
    rng = np.random.default_rng(7)
    for page in range(NUM_PAGES):
        memory.write(page, rng.integers(0, 256, cache.page_bytes, dtype=np.uint8))
    return memory


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("in_file", [False, True])
def test_moves_are_carried_out_in_order_and_bit_for_bit(
    dtype: str, in_file: bool, tmp_path: Path
) -> None:
    memory = make_memory(dtype, tmp_path if in_file else None)
    before = [memory.read(page) for page in range(NUM_PAGES)]
    memory.do(
        [
            PageMove(MoveKind.SWAP_OUT, 0, 2),
            PageMove(MoveKind.SWAP_OUT, 1, 0),
            PageMove(MoveKind.COPY, 2, 0),  # page 0 is given to somebody else
            PageMove(MoveKind.SWAP_IN, 2, 1),
            PageMove(MoveKind.SWAP_OUT, 3, 2),  # and so is its slot
            PageMove(MoveKind.SWAP_IN, 0, 3),
            PageMove(MoveKind.SWAP_IN, 2, 4),
        ]
    )
    sources = [2, 0, 2, 1, 3, 5]
    for page, source in enumerate(sources):
        np.testing.assert_array_equal(memory.read(page), before[source])


@pytest.mark.parametrize("num_slots", [1, NUM_MEASURED_PAGES, 100])
def test_a_move_takes_some_time(num_slots: int) -> None:
    scratch = KvCache(NUM_MEASURED_PAGES, LAYERS, "int8")
    assert 0.0 < measure_move_seconds(scratch, SwapBuffer(num_slots, scratch.page_bytes)) < 1.0


def test_without_swap_space_no_move_is_ever_done() -> None:
    scratch = KvCache(NUM_MEASURED_PAGES, LAYERS, "int8")
    assert measure_move_seconds(scratch, SwapBuffer(0, scratch.page_bytes)) == math.inf


def test_a_page_has_the_bytes_of_all_layers() -> None:
    cache = KvCache(NUM_PAGES, LAYERS, "int16")
    numbers = 2 * 16 * (2 * 16 + 64 + 3 * 32)
    scales = 2 * 16 * (2 + 1 + 3)
    assert cache.page_bytes == 2 * numbers + 4 * scales
    assert cache.num_bytes >= NUM_PAGES * cache.page_bytes


@pytest.mark.parametrize("page", [-1, NUM_PAGES])
def test_pages_that_do_not_exist_and_buffers_of_another_size_are_refused(page: int) -> None:
    cache = KvCache(NUM_PAGES, LAYERS, "int8")
    content = np.zeros(cache.page_bytes, np.uint8)
    pages_and_buffers: list[tuple[Callable[..., None], tuple[object, ...]]] = [
        (cache.copy_page, (0, page)),
        (cache.copy_page, (page, 0)),
        (cache.save_page, (page, content)),
        (cache.load_page, (page, content)),
    ]
    for move, arguments in pages_and_buffers:
        with pytest.raises(ValueError, match=f"page is {page} of 6"):
            move(*arguments)
    with pytest.raises(ValueError, match="a page has"):
        cache.load_page(0, content[:-1])
    with pytest.raises(ValueError, match="a page has"):
        cache.save_page(0, content[:-1])


def test_a_swap_file_leaves_no_name_and_only_its_owner_may_read_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modes: list[int] = []

    def reserve(descriptor: int, _: int, size: int) -> None:
        modes.append(stat.S_IMODE(os.fstat(descriptor).st_mode))
        os.ftruncate(descriptor, size)

    monkeypatch.setattr("octavo.runner.swap_buffer.os.posix_fallocate", reserve)
    SwapBuffer(2, 1000, tmp_path).slot(1)[:] = 5
    assert modes == [0o600]
    assert list(tmp_path.iterdir()) == []


def test_a_folder_without_room_is_refused_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--swap-space is \d+ bytes; --swap-dir .* left"):
        SwapBuffer(1 << 30, 1 << 30, tmp_path)


def test_memory_that_no_machine_has_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"--swap-space is \d+ bytes; this machine"):
        SwapBuffer(1 << 30, 1 << 30)


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--swap-dir .*missing cannot be used"):
        SwapBuffer(1, 4096, tmp_path / "missing")
