"""Which ids and lengths end a sequence, and which do not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.core.repetition_detection import RepetitionDetection
from octavo.core.sampling_params import SamplingParams
from octavo.scheduler.stopping import Finish, finish_of, repeats
from tests.fakes import EOS, make_sequence

EOS_IDS = frozenset({EOS})


def finish_after(
    answer: list[int], params: SamplingParams, max_sequence_tokens: int = 1000
) -> Finish | None:
    sequence = make_sequence([1, 2, 3], params)
    sequence.token_ids.extend(answer)
    return finish_of(sequence, EOS_IDS, max_sequence_tokens)


def test_an_ordinary_token_ends_nothing() -> None:
    assert finish_after([5], SamplingParams(max_tokens=2)) is None


def test_end_of_text_stops_without_a_stop_reason() -> None:
    assert finish_after([5, EOS], SamplingParams(max_tokens=9)) == Finish("stop", None)


def test_end_of_text_can_be_ignored() -> None:
    assert finish_after([EOS], SamplingParams(max_tokens=9, ignore_eos=True)) is None


def test_an_asked_for_stop_id_is_the_stop_reason_even_with_ignore_eos() -> None:
    params = SamplingParams(max_tokens=9, stop_token_ids=[5], ignore_eos=True)
    assert finish_after([5], params) == Finish("stop", 5)


@pytest.mark.parametrize(("num_answer", "finished"), [(1, False), (2, False), (3, True)])
def test_stop_ids_do_not_count_before_min_tokens(num_answer: int, finished: bool) -> None:
    params = SamplingParams(max_tokens=9, min_tokens=3, stop_token_ids=[5])
    assert (finish_after([5] * num_answer, params) is not None) == finished


def test_max_tokens_is_a_length() -> None:
    assert finish_after([5, 5], SamplingParams(max_tokens=2)) == Finish("length")


def test_no_answer_wanted_is_a_length_and_a_stop_id_in_the_prompt_is_none() -> None:
    params = SamplingParams(max_tokens=0, stop_token_ids=[3])
    assert finish_after([], params) == Finish("length")


def test_a_stop_on_the_last_allowed_token_is_a_stop() -> None:
    assert finish_after([5, EOS], SamplingParams(max_tokens=2)) == Finish("stop")


def test_the_context_length_ends_what_has_no_max_tokens() -> None:
    params = SamplingParams(max_tokens=None)
    assert finish_after([5, 5], params, max_sequence_tokens=6) is None
    assert finish_after([5, 5, 5], params, max_sequence_tokens=6) == Finish("length")


@pytest.mark.parametrize(
    ("answer", "finished"),
    [
        ([7, 5, 5, 5], True),
        ([5, 5, 5, 7], False),
        ([9, 1, 2, 1, 2, 1, 2], True),
        ([9, 1, 2, 1, 2], False),
        ([1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4], False),
        ([3, 3], False),
    ],
)
def test_a_pattern_that_comes_often_enough_ends_the_answer(
    answer: list[int], finished: bool
) -> None:
    """The prompt, 1 2 3, is no part of it."""
    detection = RepetitionDetection(max_pattern_size=3, min_count=3)
    wish = SamplingParams(max_tokens=50, repetition_detection=detection)
    expected = Finish("repetition", "repetition_detected") if finished else None
    assert finish_after(answer, wish) == expected
    later = SamplingParams(max_tokens=50, min_tokens=20, repetition_detection=detection)
    assert finish_after(answer, later) is None


@given(
    answer=st.lists(st.sampled_from([1, 1, 2]), min_size=1, max_size=40),
    sizes=st.tuples(st.integers(0, 6), st.integers(0, 6)).map(sorted),
    count=st.integers(2, 5),
)
def test_repetitions_are_those_of_the_definition(
    answer: list[int], sizes: list[int], count: int
) -> None:
    expected = any(
        len(answer) >= size * count and answer[-size * count :] == answer[-size:] * count
        for size in range(max(sizes[0], 1), sizes[1] + 1)
    )
    detection = RepetitionDetection(
        min_pattern_size=sizes[0], max_pattern_size=sizes[1], min_count=count
    )
    assert repeats([1, 1, 1, *answer], len(answer), detection) == expected
