"""Which values the further sampling parameters may have, and how others are refused."""

from __future__ import annotations

import math
from typing import Any

import pytest

from octavo.core.repetition_detection import RepetitionDetection
from octavo.core.sampling_params import SamplingParams
from octavo.core.token_filters import MAX_ALLOWED_TOKEN_IDS, MAX_BAD_WORDS, TokenFilters
from octavo.errors import InvalidRequest, UnsupportedParameter

REALS = [
    name for name in TokenFilters.__struct_fields__ if TokenFilters.__annotations__[name] == "float"
]


@pytest.mark.parametrize("name", REALS)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -2.0, 1000.0, True, "1"])
def test_numbers_are_finite_and_in_range(name: str, value: object) -> None:
    with pytest.raises(InvalidRequest, match=f"{name} is ") as caught:
        SamplingParams(**{name: value})  # type: ignore[arg-type]
    assert caught.value.param == name


@pytest.mark.parametrize(
    ("given", "param"),
    [
        ({"typical_p": 0.0}, "typical_p"),
        ({"dynatemp_exponent": 0.0}, "dynatemp_exponent"),
        ({"dry_base": 0.99}, "dry_base"),
        ({"dry_allowed_length": 0}, "dry_allowed_length"),
        ({"dry_penalty_last_n": -2}, "dry_penalty_last_n"),
        ({"mirostat": 3}, "mirostat"),
        ({"dry_sequence_breakers": [""]}, "dry_sequence_breakers"),
        ({"dry_sequence_breakers": ["x" * 41]}, "dry_sequence_breakers"),
        ({"dry_sequence_breakers": ["x"] * 17}, "dry_sequence_breakers"),
        ({"bad_words": [""]}, "bad_words"),
        ({"bad_words": ["  "]}, "bad_words"),
        ({"bad_words": ["x"] * (MAX_BAD_WORDS + 1)}, "bad_words"),
        ({"bad_words": ["x" * 257]}, "bad_words"),
        ({"allowed_token_ids": []}, "allowed_token_ids"),
        ({"allowed_token_ids": [-1]}, "allowed_token_ids"),
        ({"allowed_token_ids": [1] * (MAX_ALLOWED_TOKEN_IDS + 1)}, "allowed_token_ids"),
        ({"dynatemp_range": 0.5, "temperature": 0.0}, "dynatemp_range"),
    ],
)
def test_each_limit_has_a_value_beyond_it(given: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        SamplingParams(**given)
    assert caught.value.param == param


def test_each_limit_itself_is_allowed() -> None:
    SamplingParams(
        top_n_sigma=-1.0,
        typical_p=1.0,
        xtc_probability=1.0,
        xtc_threshold=0.0,
        dynatemp_range=100.0,
        dynatemp_exponent=100.0,
        mirostat=2,
        mirostat_tau=0.0,
        mirostat_eta=10.0,
        dry_multiplier=100.0,
        dry_base=1.0,
        dry_allowed_length=1,
        dry_penalty_last_n=-1,
        dry_sequence_breakers=["x" * 40] * 16,
        bad_words=["x" * 256] * MAX_BAD_WORDS,
        allowed_token_ids=[1] * MAX_ALLOWED_TOKEN_IDS,
    )


def test_the_first_mirostat_is_refused() -> None:
    with pytest.raises(UnsupportedParameter, match="mirostat is 1; 0 and 2 are supported"):
        SamplingParams(mirostat=1)


@pytest.mark.parametrize(
    "given",
    [
        {"top_n_sigma": 1.0},
        {"typical_p": 0.5},
        {"xtc_probability": 0.5},
        {"dynatemp_range": 0.5},
        {"mirostat": 2},
        {"dry_multiplier": 0.8},
    ],
)
def test_filters_are_refused_with_beams(given: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedParameter, match=f"{next(iter(given))} is "):
        SamplingParams(use_beam_search=True, **given)


def test_nothing_is_asked_for_by_default() -> None:
    params = SamplingParams()
    assert not params.has_dry
    assert not params.has_draw_filters
    assert not SamplingParams(dry_multiplier=1.0, dry_penalty_last_n=0).has_dry
    assert list(params.dry_breakers) == ["\n", ":", '"', "*"]
    assert list(SamplingParams(dry_sequence_breakers=[]).dry_breakers) == []


@pytest.mark.parametrize(
    "given",
    [
        {"max_pattern_size": 3},
        {"max_pattern_size": 3, "min_count": 1},
        {"max_pattern_size": 257, "min_count": 2},
        {"max_pattern_size": 2, "min_pattern_size": 3, "min_count": 2},
        {"max_pattern_size": -1},
        {"max_pattern_size": 2, "min_count": 1025},
    ],
)
def test_repetition_detection_has_ranges(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match="repetition_detection") as caught:
        SamplingParams(repetition_detection=RepetitionDetection(**given))
    assert caught.value.param == "repetition_detection"
    off = RepetitionDetection()
    assert SamplingParams(repetition_detection=off).repetition_detection == off
