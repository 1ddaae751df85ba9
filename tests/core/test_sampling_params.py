"""What a request for beams may ask for, and how it is refused."""

from __future__ import annotations

from typing import Any

import pytest

from octavo.core.sampling_params import SamplingParams
from octavo.errors import InvalidRequest, UnsupportedParameter


def test_the_beam_width_is_n_unless_given() -> None:
    assert SamplingParams(n=4).num_beams == 0
    assert SamplingParams(n=4, use_beam_search=True).num_beams == 4
    assert SamplingParams(n=2, beam_width=5, use_beam_search=True).num_beams == 5


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"beam_width": 3}, "beam_width is given without use_beam_search"),
        ({"length_penalty": 2.0}, "length_penalty is given without use_beam_search"),
        ({"early_stopping": "never"}, "early_stopping is given without use_beam_search"),
    ],
)
def test_options_of_beams_need_beams(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        SamplingParams(**given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"n": 3, "beam_width": 2}, "beam_width is 2; an integer from 3 to 64"),
        ({"beam_width": 65}, "beam_width is 65; an integer from 1 to 64"),
        ({"length_penalty": float("inf")}, "length_penalty is inf"),
        ({"early_stopping": "always"}, "early_stopping is 'always'"),
        ({"early_stopping": 1}, "early_stopping is 1; true, false or 'never'"),
        ({"max_tokens": 0}, "max_tokens is 0; with use_beam_search at least 1"),
    ],
)
def test_options_of_beams_have_ranges(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        SamplingParams(use_beam_search=True, **given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"temperature": 0.7}, "temperature is 0.7; with use_beam_search 0.0 or 1.0 is allowed"),
        ({"top_p": 0.9}, "top_p is 0.9; with use_beam_search 1.0 is allowed"),
        ({"top_k": 5}, "top_k is 5; with use_beam_search 0 or -1 is allowed"),
        ({"min_p": 0.1}, "min_p is 0.1; with use_beam_search 0.0 is allowed"),
        ({"stop": "x"}, "stop is given with use_beam_search"),
        ({"stop_regex": "x"}, "stop_regex is given with use_beam_search"),
        ({"logprobs": 0}, "logprobs is 0; with use_beam_search no value is allowed"),
        ({"prompt_logprobs": 2}, "prompt_logprobs is 2; with use_beam_search no value"),
    ],
)
def test_options_of_sampling_are_refused_with_beams(given: dict[str, Any], message: str) -> None:
    with pytest.raises(UnsupportedParameter, match=message) as caught:
        SamplingParams(use_beam_search=True, **given)
    assert caught.value.param == next(iter(given))
