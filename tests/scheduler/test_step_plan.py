"""A step's two budgets are handed out and never exceeded."""

from __future__ import annotations

from octavo.core.sampling_params import SamplingParams
from octavo.scheduler.step_plan import StepPlan, num_wanted_tokens, wants_prompt_logprobs
from tests.fakes import make_sequence


def test_a_prompt_that_fits_is_scheduled_whole_and_samples() -> None:
    plan = StepPlan(max_tokens=8, max_logit_rows=8)
    plan.add(make_sequence([1] * 8))
    (scheduled,) = plan.step.sequences
    assert (scheduled.start, scheduled.num_tokens, scheduled.samples) == (0, 8, True)
    assert plan.is_full


def test_a_long_prompt_gets_a_chunk_and_does_not_sample() -> None:
    plan = StepPlan(max_tokens=8, max_logit_rows=8)
    sequence = make_sequence([1] * 20)
    sequence.num_computed_tokens = 8
    plan.add(sequence)
    (scheduled,) = plan.step.sequences
    assert (scheduled.start, scheduled.num_tokens, scheduled.samples) == (8, 8, False)


def test_the_chunk_that_ends_the_prompt_samples() -> None:
    plan = StepPlan(max_tokens=8, max_logit_rows=8)
    sequence = make_sequence([1] * 20)
    sequence.num_computed_tokens = 16
    plan.add(sequence)
    assert plan.step.sequences[0].samples
    assert plan.step.num_tokens == 4
    assert not plan.is_full


def test_a_chunk_with_prompt_logprobs_is_bounded_by_logit_rows() -> None:
    plan = StepPlan(max_tokens=100, max_logit_rows=4)
    plan.add(make_sequence([1] * 20, SamplingParams(prompt_logprobs=1)))
    (scheduled,) = plan.step.sequences
    assert (scheduled.num_tokens, scheduled.wants_prompt_logprobs) == (4, True)
    assert plan.is_full


def test_nothing_is_sampled_if_no_token_is_wanted() -> None:
    plan = StepPlan(max_tokens=8, max_logit_rows=1)
    plan.add(make_sequence([1] * 4, SamplingParams(max_tokens=0)))
    assert not plan.step.sequences[0].samples
    assert not plan.is_full


def test_prompt_logprobs_are_wanted_of_sequence_0_until_it_answers() -> None:
    params = SamplingParams(prompt_logprobs=0, n=2)
    sequence = make_sequence([1, 2], params)
    assert wants_prompt_logprobs(sequence)
    assert not wants_prompt_logprobs(make_sequence([1, 2], params, index=1))
    assert not wants_prompt_logprobs(make_sequence([1, 2]))
    sequence.token_ids.append(3)
    assert not wants_prompt_logprobs(sequence)
    assert num_wanted_tokens(sequence) == 3
