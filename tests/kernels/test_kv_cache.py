"""Pages of key/value memory: what layers they take."""

from __future__ import annotations

import pytest

from octavo.kernels import _native


@pytest.mark.parametrize("head_dim", [16, 64, 512])
def test_heads_of_whole_lines_are_taken(head_dim: int) -> None:
    cache = _native.KvCache(2, [(3, head_dim)], "float16")
    assert cache.read_page(0, 1).shape == (3, 2, head_dim * 16)


@pytest.mark.parametrize("head_dim", [0, 8, 40, 528])
def test_heads_that_the_kernels_cannot_hold_are_refused(head_dim: int) -> None:
    with pytest.raises(ValueError, match=rf"head_dim is {head_dim}"):
        _native.KvCache(2, [(1, head_dim)], "float16")
