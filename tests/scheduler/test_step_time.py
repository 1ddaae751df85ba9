"""What steps take is learned from what they took, and little is made of little."""

from __future__ import annotations

import random

import pytest

from octavo.scheduler.step_time import MIN_PROMPT_TOKENS, StepTimeModel, StepWork

FIXED, TOKEN, SEQUENCE, ATTENDED = 0.004, 0.0006, 0.0002, 0.0003
"""Seconds of a machine: of any step, a token, a sequence, 1024 looks back."""


def seconds(work: StepWork) -> float:
    attended = work.num_attended_tokens / 1024
    return FIXED + TOKEN * work.num_tokens + SEQUENCE * work.num_sequences + ATTENDED * attended


def prompt(num_tokens: int) -> StepWork:
    return StepWork().plus(0, num_tokens)


def observe(model: StepTimeModel, *works: StepWork) -> None:
    for work in works:
        model.observe(work, seconds(work))


def test_a_linear_machine_is_learned() -> None:
    random_source, model = random.Random(1), StepTimeModel()
    for _ in range(300):
        work = StepWork()
        for _ in range(random_source.randint(1, 16)):
            is_prompt = random_source.random() < 0.2
            num_tokens = random_source.randint(2, 500) if is_prompt else 1
            work = work.plus(random_source.randint(0, 3000), num_tokens)
        observe(model, work)
    learned = model.coefficients
    assert learned == pytest.approx((FIXED, TOKEN, SEQUENCE, ATTENDED), rel=0.02)
    steps = [prompt(512), prompt(512).plus(512, 512), prompt(100)]
    for work in steps:
        assert model.predict(work) == pytest.approx(seconds(work), rel=0.02)
    assert model.seconds_to_compute(512, 512) == pytest.approx(seconds(prompt(512)), rel=0.05)


def test_one_word_says_nothing_of_what_long_prompts_cost() -> None:
    model = StepTimeModel()
    observe(model, prompt(5), StepWork().plus(5, 1), StepWork().plus(6, 1))
    assert model.seconds_to_compute(2048, 2048) == 0.0


def test_words_do_not_make_a_long_prompt_seem_to_take_minutes() -> None:
    """Short ones alone do not tell tokens from looks back, whose number grows with the square."""
    model = StepTimeModel()
    total_seconds = total_tokens = 0.0
    for number in range(200):
        num_tokens = 3 + number % 5
        took = 0.004 + 0.0001 * num_tokens**2
        model.observe(prompt(num_tokens), took)
        total_seconds, total_tokens = total_seconds + took, total_tokens + num_tokens
    assert model.predict(prompt(2048)) > 100
    predicted = model.seconds_to_compute(2048, 2048)
    assert predicted == pytest.approx(2048 * total_seconds / total_tokens)
    model.observe(StepWork(2 * MIN_PROMPT_TOKENS, 1, 1), 1e-9)  # an outlier teaches nothing
    assert model.seconds_to_compute(2048, 2048) == predicted
