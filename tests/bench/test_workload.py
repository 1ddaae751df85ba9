"""Lengths, prompts and arrivals: what was asked for, and the same again for the same seed."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.bench.lengths import Fixed, LogNormal, Uniform, parse_lengths
from octavo.bench.workload import Workload, poisson_arrivals
from octavo.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "lengths"),
    [
        ("203", Fixed(203)),
        ("uniform:1:9", Uniform(1, 9)),
        ("lognormal:200:0.5", LogNormal(200, 0.5, 1600)),
        ("lognormal:200:0.5:300", LogNormal(200, 0.5, 300)),
    ],
)
def test_lengths_are_read(text: str, lengths: object) -> None:
    assert parse_lengths(text, "--input-len") == lengths


@pytest.mark.parametrize(
    "text",
    [
        *("", "0", "-1", "x", "1.5", "3:4", "uniform", "uniform:5:4", "uniform:0:4"),
        *("uniform:1:2:3", "lognormal:9", "lognormal:9:-1", "lognormal:9:nan", "lognormal:9:1:8"),
        *("lognormal:0:1", "lognormal:9:1:9:9", "zipf:1"),
    ],
)
def test_other_lengths_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--input-len is"):
        parse_lengths(text, "--input-len")


@given(st.integers(1, 99), st.integers(0, 99), st.integers())
def test_uniform_lengths_stay_within_both_ends(low: int, span: int, seed: int) -> None:
    drawn = Uniform(low, low + span).draw(random.Random(seed))
    assert low <= drawn <= low + span


@given(st.integers(1, 99), st.floats(0, 10), st.integers())
def test_log_normal_lengths_are_cut(median: int, sigma: float, seed: int) -> None:
    lengths = LogNormal(median, sigma, 2 * median)
    assert 1 <= lengths.draw(random.Random(seed)) <= 2 * median


def test_log_normal_lengths_have_their_median() -> None:
    source = random.Random(1)
    drawn = sorted(LogNormal(200, 0.5, 10_000).draw(source) for _ in range(2001))
    assert drawn[1000] == pytest.approx(200, rel=0.1)


def workload(seed: int = 0, num_prefix_tokens: int = 7) -> Workload:
    return Workload(
        num_prompts=20,
        input_lengths=Uniform(3, 30),
        output_lengths=Fixed(5),
        num_prefix_tokens=num_prefix_tokens,
        seed=seed,
    )


def test_a_workload_is_the_same_for_the_same_seed() -> None:
    assert workload().requests() == workload().requests()
    assert workload().requests() != workload(seed=1).requests()


def test_prompts_share_exactly_the_prefix() -> None:
    words = [request.prompt.split() for request in workload().requests()]
    assert len({tuple(prompt[:7]) for prompt in words}) == 1
    assert len({tuple(prompt[:10]) for prompt in words}) > 10
    assert all(10 <= len(prompt) <= 37 for prompt in words)


def test_a_request_counts_its_words() -> None:
    for request in workload().requests():
        assert request.num_prompt_tokens == len(request.prompt.split())


@given(st.integers(1, 200), st.floats(0.1, 1000), st.integers(0, 2**32))
def test_arrivals_are_seeded_and_rise_from_zero(count: int, rate: float, seed: int) -> None:
    arrivals = list(poisson_arrivals(count, rate, seed))
    assert arrivals == list(poisson_arrivals(count, rate, seed))
    assert len(arrivals) == count
    assert arrivals[0] == 0.0
    assert arrivals == sorted(arrivals)


def test_arrivals_come_at_the_rate_and_at_random() -> None:
    arrivals = list(poisson_arrivals(4001, 50.0, seed=3))
    gaps = [after - before for before, after in itertools.pairwise(arrivals)]
    mean = sum(gaps) / len(gaps)
    variance = sum((gap - mean) ** 2 for gap in gaps) / len(gaps)
    assert mean == pytest.approx(1 / 50, rel=0.1)
    assert variance == pytest.approx(mean**2, rel=0.2)  # of the exponential distribution
