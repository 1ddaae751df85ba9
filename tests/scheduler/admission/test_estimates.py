from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.core.outputs import RequestTimes
from octavo.scheduler.admission.estimates import (
    FIRST_BYTES_PER_TOKEN,
    FIRST_OUTPUT_TOKENS,
    SAMPLE_CHARS,
    Estimates,
    num_text_bytes,
)
from octavo.scheduler.running_ratio import RunningRatio


@given(st.text(st.characters(), max_size=200))
def test_short_texts_are_measured_exactly(text: str) -> None:
    assert num_text_bytes(text) == len(text.encode("utf-8", "surrogatepass"))


def test_long_texts_are_measured_by_their_beginning_unless_they_are_ascii() -> None:
    assert num_text_bytes("a" * 10**6) == 10**6
    assert num_text_bytes("ж" * 10**6) == 2 * 10**6
    assert num_text_bytes("ж" * SAMPLE_CHARS + "a" * SAMPLE_CHARS) == 4 * SAMPLE_CHARS


def test_bytes_per_token_are_learned() -> None:
    estimates = Estimates()
    assert estimates.num_prompt_tokens(400) == 400 / FIRST_BYTES_PER_TOKEN
    assert estimates.num_prompt_tokens(1) == 1
    assert estimates.num_prompt_tokens(0) == 0
    for _ in range(200):
        estimates.tokenised(num_bytes=1000, num_tokens=1000)
    assert estimates.num_prompt_tokens(1000) == pytest.approx(1000, rel=0.02)


def test_a_ratio_forgets() -> None:
    ratio = RunningRatio(0, 0, window=10)
    assert ratio.value == 0
    for _ in range(100):
        ratio.count(1, 1)
    for _ in range(60):
        ratio.count(5, 1)
    assert ratio.value == pytest.approx(5, rel=0.05)


def test_lengths_of_answers_and_times_are_learned() -> None:
    estimates = Estimates()
    assert estimates.num_output_tokens == FIRST_OUTPUT_TOKENS
    assert estimates.slot_seconds == estimates.token_seconds == 0
    for _ in range(500):
        estimates.answered(num_tokens=20, num_sequences=2)
    assert estimates.num_output_tokens == pytest.approx(10, abs=1)
    estimates.finished(RequestTimes(prefill_seconds=1, decode_seconds=4, num_generation_tokens=9))
    assert estimates.slot_seconds == 5
    assert estimates.token_seconds == 0.5


def test_who_gave_up_before_the_first_token_teaches_nothing() -> None:
    estimates = Estimates()
    estimates.finished(RequestTimes(queue_seconds=9))
    assert estimates.slot_seconds == estimates.token_seconds == 0
