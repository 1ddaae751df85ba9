"""What may be wished of a vector, and what is decided."""

from __future__ import annotations

from typing import Any

import pytest

from octavo.core.pooling import Pooler, Pooling, PoolingParams
from octavo.errors import InvalidRequest

POOLER = Pooler(method="mean", normalize=True, dimensions=6, hidden_size=8)
IDS = [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"truncate_prompt_tokens": 0}, "truncate_prompt_tokens"),
        ({"truncate_prompt_tokens": -2}, "truncate_prompt_tokens"),
        ({"truncation_side": "middle"}, "truncation_side"),
        ({"dimensions": 0}, "dimensions"),
        ({"dimensions": True}, "dimensions"),
        ({"normalize": True, "use_activation": False}, "normalize"),
    ],
)
def test_a_wish_out_of_range_is_refused_by_name(given: dict[str, Any], name: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        PoolingParams(**given)
    assert caught.value.param == name


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({}, IDS),
        ({"truncate_prompt_tokens": 2}, [4, 5]),
        ({"truncate_prompt_tokens": 2, "truncation_side": "right"}, [1, 2]),
        ({"truncate_prompt_tokens": 5}, IDS),
        ({"truncate_prompt_tokens": -1}, [2, 3, 4, 5]),
        ({"truncate_prompt_tokens": -1, "truncation_side": "right"}, [1, 2, 3, 4]),
    ],
)
def test_a_long_prompt_keeps_one_end(given: dict[str, Any], kept: list[int]) -> None:
    assert PoolingParams(**given).truncated(IDS, max_model_len=4) == kept


def test_what_a_request_leaves_open_is_the_engines() -> None:
    assert POOLER.pooling(PoolingParams()) == Pooling(method="mean", normalize=True, dimensions=6)
    for name in ("normalize", "use_activation"):
        given = PoolingParams(**{name: False, "dimensions": 8})  # type: ignore[arg-type]
        assert POOLER.pooling(given) == Pooling(method="mean", normalize=False, dimensions=8)
    with pytest.raises(InvalidRequest, match="from 1 to 8 is allowed"):
        POOLER.pooling(PoolingParams(dimensions=9))


def test_only_the_last_token_may_follow_cached_ones() -> None:
    needs = {
        method: Pooling(method=method, normalize=True, dimensions=1).needs_every_token
        for method in ("mean", "cls", "last")
    }
    assert needs == {"mean": True, "cls": True, "last": False}
