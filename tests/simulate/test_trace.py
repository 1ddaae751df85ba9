"""Made-up prompts are equal as far as their beginnings are, and no further."""

from __future__ import annotations

import random
from collections import Counter
from itertools import takewhile
from statistics import mean

import pytest

from octavo.bench.lengths import Fixed
from octavo.simulate.synthetic import LENGTHS, Recipe, make_trace
from octavo.simulate.trace import mean_rate, prompt_token_ids
from tests.simulate.machines import request


def num_equal(first: list[int], second: list[int]) -> int:
    return len(list(takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False))))


def test_prompts_share_their_common_parts_only() -> None:
    first = prompt_token_ids(request(prompt=50, prefix=((1, 20), (2, 10))), 0)
    second = prompt_token_ids(request(prompt=60, prefix=((1, 20), (3, 10))), 1)
    third = prompt_token_ids(request(prompt=60, prefix=((1, 20), (2, 10))), 2)
    assert (len(first), len(second)) == (50, 60)
    assert num_equal(first, second) == 20
    assert num_equal(first, third) == 30


def test_a_beginning_longer_than_the_prompt_is_cut() -> None:
    assert prompt_token_ids(request(prompt=5, prefix=((4, 20),)), 0) == [8] * 5


def test_equal_seeds_make_equal_traces_and_others_do_not() -> None:
    inputs, outputs = LENGTHS["sharegpt"]

    def made(seed: int) -> object:
        recipe = Recipe(
            num_requests=50, rate=2.0, input_lengths=inputs, output_lengths=outputs, seed=seed
        )
        return make_trace(recipe)

    assert made(1) == made(1)
    assert made(1) != made(2)


def test_tenants_get_their_shares_and_prefixes_come_on_top() -> None:
    recipe = Recipe(
        num_requests=4000,
        rate=4.0,
        input_lengths=Fixed(10),
        output_lengths=Fixed(3),
        tenants={"busy": 3.0, "quiet": 1.0},
        num_prefixes=4,
        num_prefix_tokens=32,
    )
    trace = make_trace(recipe)
    counts = Counter(one.tenant for one in trace)
    prefixes = Counter(one.prefix[0][0] for one in trace)
    assert counts["busy"] / counts["quiet"] == pytest.approx(3, rel=0.1)
    assert {one.num_prompt_tokens for one in trace} == {42}
    assert prefixes[0] / prefixes[3] == pytest.approx(4, rel=0.2)
    assert mean_rate(trace) == pytest.approx(4.0, rel=0.1)


@pytest.mark.parametrize(
    ("name", "inputs", "outputs"), [("sharegpt", 161, 338), ("alpaca", 19, 58)]
)
def test_lengths_have_the_published_means(name: str, inputs: int, outputs: int) -> None:
    source = random.Random(0)
    means = [mean(kind.draw(source) for _ in range(20_000)) for kind in LENGTHS[name]]
    assert means == pytest.approx([inputs, outputs], rel=0.08)
