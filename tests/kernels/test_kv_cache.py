"""The memory of key/value pages: shapes, bounds, and that untouched pages cost nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from octavo.kernels import _native as native


@pytest.mark.parametrize(
    ("dtype", "size", "scale_size"),
    [("float32", 4, 0), ("float16", 2, 0), ("bfloat16", 2, 0), ("int16", 2, 4), ("int8", 1, 4)],
)
def test_layers_of_pages_may_differ_and_begin_zeroed(
    dtype: str, size: int, scale_size: int
) -> None:
    cache = native.KvCache(3, [(2, 16), (1, 64)], dtype)
    vectors = 3 * 16 * 2  # per head: keys and values of the tokens of three pages
    num_bytes = vectors * (2 * (16 * size + scale_size) + 64 * size + scale_size)
    assert num_bytes <= cache.num_bytes < num_bytes + 4096
    assert cache.read_page(0, 2).shape == (2, 2, 256)
    assert cache.read_page(1, 0).shape == (1, 2, 1024)
    assert not cache.read_page(1, 2).any()


def test_layers_of_two_groups_on_one_shelf_share_its_memory() -> None:
    layers = [(1, 16), (2, 16), (1, 32), (1, 16)]
    cache = native.KvCache(3, layers, "float32", [(0, 0), (0, 1), (1, 0), (2, 0)])
    assert cache.page_bytes == 2 * 16 * 4 * (32 + 2 * 16)
    content = np.zeros(cache.page_bytes, np.uint8)
    content[0] = 1
    cache.load_page(1, content)
    cache.copy_page(1, 2)
    for page in (1, 2):
        assert [cache.read_page(layer, page).any() for layer in range(4)] == [1, 0, 1, 1]
    assert not cache.read_page(2, 0).any()


@pytest.mark.parametrize(
    ("places", "message"),
    [
        ([(0, 0)], "1 places for 2 layers"),
        ([(0, 1), (0, 1)], "two layers of group 0 are on shelf 1"),
        ([(0, 0), (-1, 0)], "group is -1"),
        ([(0, 0), (0, 5000)], "shelf is 5000; 0 to 4095"),
    ],
)
def test_places_that_are_none_are_refused(places: list[tuple[int, int]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        native.KvCache(1, [(1, 16)] * 2, "float16", places)


def test_untouched_pages_take_no_memory() -> None:
    def resident_bytes() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

    before = resident_bytes()
    cache = native.KvCache(100_000, [(8, 128)] * 8, "float16")
    assert cache.num_bytes > 10**10
    assert resident_bytes() - before < 50 * 10**6


@pytest.mark.parametrize(
    ("num_pages", "layers", "dtype", "message"),
    [
        (0, [(1, 16)], "float16", "num_pages is 0"),
        (1, [], "float16", "number of layers is 0"),
        (1, [(0, 16)], "float16", "num_kv_heads is 0"),
        (1, [(1, -1)], "float16", "head_dim is -1"),
        (1, [(1, 40)], "float16", "head_dim is 40; multiples of 16"),
        (1, [(1, 528)], "float16", "head_dim is 528; 1 to 512"),
        (1, [(1, 16)], "int4", 'dtype is "int4".*"int8" are allowed'),
    ],
)
def test_page_shapes_out_of_range_are_refused(
    num_pages: int, layers: list[tuple[int, int]], dtype: str, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        native.KvCache(num_pages, layers, dtype)


def test_pages_beyond_the_address_space_are_refused() -> None:
    with pytest.raises(MemoryError):
        native.KvCache(2**31 - 1, [(4096, 512)] * 4096, "float16")
    with pytest.raises(ValueError, match="layer is 1 of 1"):
        native.KvCache(1, [(1, 16)], "float16").read_page(1, 0)
    with pytest.raises(ValueError, match="page is 1 of 1"):
        native.KvCache(1, [(1, 16)], "float16").read_page(0, 1)
