"""A step's two budgets are handed out and never exceeded."""

from __future__ import annotations

from octavo.core.sampling_params import SamplingParams
from octavo.core.sequence import Sequence
from octavo.scheduler.step_plan import (
    StepLimits,
    StepPlan,
    is_answering,
    is_decoding,
    num_wanted_tokens,
    wants_prompt_logprobs,
)
from octavo.scheduler.step_time import StepTimeModel
from tests.fakes import make_sequence


def make_plan(
    max_tokens: int = 100,
    max_logit_rows: int = 100,
    *,
    max_unreserved_tokens: int | None = None,
    max_seconds: float | None = None,
    seconds: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0),
) -> StepPlan:
    limits = StepLimits(
        max_tokens=max_tokens,
        max_logit_rows=max_logit_rows,
        max_unreserved_tokens=max_tokens
        if max_unreserved_tokens is None
        else max_unreserved_tokens,
        max_seconds=max_seconds,
    )
    return StepPlan(limits, StepTimeModel(seconds))


def give(plan: StepPlan, sequence: Sequence, *, is_reserved: bool = False) -> int:
    """Schedule what fits, and say how much that is."""
    num_tokens = plan.fits(sequence, is_reserved=is_reserved)
    if num_tokens:
        plan.add(sequence, num_tokens, is_reserved=is_reserved)
    return num_tokens


def decoding() -> Sequence:
    sequence = make_sequence([1, 2, 3])
    sequence.num_computed_tokens = 2
    return sequence


def test_a_prompt_that_fits_is_scheduled_whole_and_samples() -> None:
    plan = make_plan(max_tokens=8, max_logit_rows=8)
    give(plan, make_sequence([1] * 8))
    (scheduled,) = plan.step.sequences
    assert (scheduled.start, scheduled.num_tokens, scheduled.samples) == (0, 8, True)
    assert give(plan, make_sequence([1])) == 0


def test_a_long_prompt_gets_a_chunk_and_does_not_sample() -> None:
    plan = make_plan(max_tokens=8, max_logit_rows=8)
    sequence = make_sequence([1] * 20)
    sequence.num_computed_tokens = 8
    give(plan, sequence)
    (scheduled,) = plan.step.sequences
    assert (scheduled.start, scheduled.num_tokens, scheduled.samples) == (8, 8, False)


def test_the_chunk_that_ends_the_prompt_samples() -> None:
    plan = make_plan(max_tokens=8, max_logit_rows=8)
    sequence = make_sequence([1] * 20)
    sequence.num_computed_tokens = 16
    give(plan, sequence)
    assert plan.step.sequences[0].samples
    assert plan.step.num_tokens == 4
    assert give(plan, make_sequence([1] * 3)) == 3


def test_a_chunk_with_prompt_logprobs_is_bounded_by_logit_rows() -> None:
    plan = make_plan(max_tokens=100, max_logit_rows=4)
    give(plan, make_sequence([1] * 20, SamplingParams(prompt_logprobs=1)))
    (scheduled,) = plan.step.sequences
    assert (scheduled.num_tokens, scheduled.wants_prompt_logprobs) == (4, True)
    assert give(plan, make_sequence([1])) == 0


def test_nothing_is_sampled_if_no_token_is_wanted() -> None:
    plan = make_plan(max_tokens=8, max_logit_rows=1)
    give(plan, make_sequence([1] * 4, SamplingParams(max_tokens=0)))
    assert not plan.step.sequences[0].samples
    assert give(plan, make_sequence([1] * 3)) == 3


def test_prompt_logprobs_are_wanted_of_sequence_0_until_it_answers() -> None:
    params = SamplingParams(prompt_logprobs=0, n=2)
    sequence = make_sequence([1, 2], params)
    assert wants_prompt_logprobs(sequence)
    assert not wants_prompt_logprobs(make_sequence([1, 2], params, index=1))
    assert not wants_prompt_logprobs(make_sequence([1, 2]))
    sequence.token_ids.append(3)
    assert not wants_prompt_logprobs(sequence)
    assert num_wanted_tokens(sequence) == 3


def answering(num_computed: int, params: SamplingParams | None = None) -> Sequence:
    sequence = make_sequence([1] * 3, params)
    sequence.token_ids += [2] * (num_computed - 2)
    sequence.num_computed_tokens = num_computed
    return sequence


def test_those_who_answer_are_scheduled_together_as_they_would_be_one_by_one() -> None:
    sequences = [
        answering(3),
        answering(9, SamplingParams(max_tokens=50)),
        answering(5, SamplingParams(prompt_logprobs=2)),
    ]
    assert all(map(is_answering, sequences))
    together, apart = (
        make_plan(12, 4, max_unreserved_tokens=7, max_seconds=1.0, seconds=(0.1, 0.1, 0.01, 1.0))
        for _ in range(2)
    )
    together.add_answering(sequences, num_reserved=1)
    for number, sequence in enumerate(sequences):
        apart.add(sequence, 1, is_reserved=number == 0)
    assert together.step == apart.step
    assert together.work == apart.work
    for is_reserved in (False, True):
        wants_rows = make_sequence([1] * 50, SamplingParams(prompt_logprobs=2))
        for prompt in (make_sequence([1] * 50), make_sequence([1]), wants_rows):
            fitting = together.fits(prompt, is_reserved=is_reserved)
            assert fitting == apart.fits(prompt, is_reserved=is_reserved)


def test_who_has_still_to_read_the_last_of_its_prompt_does_not_answer() -> None:
    assert is_decoding(decoding())
    assert not is_answering(decoding())


def test_what_is_reserved_is_left_to_the_high_class() -> None:
    plan = make_plan(max_tokens=32, max_unreserved_tokens=24)
    assert give(plan, make_sequence([1] * 40)) == 24
    assert give(plan, make_sequence([1] * 40)) == 0
    assert give(plan, make_sequence([1] * 40), is_reserved=True) == 8


def test_a_chunk_keeps_the_predicted_time_of_a_step_in_which_somebody_decodes() -> None:
    plan = make_plan(max_seconds=0.1, seconds=(0.01, 0.001, 0.0, 0.0))
    assert give(plan, decoding()) == 1
    assert give(plan, make_sequence([1] * 200)) == 89
    assert give(plan, make_sequence([1] * 200)) == 0
    assert plan.step.num_tokens == 90


def test_where_nobody_decodes_nobody_is_kept_waiting() -> None:
    plan = make_plan(max_seconds=0.01, seconds=(0.01, 0.001, 0.0, 0.0))
    assert give(plan, make_sequence([1] * 200)) == 100


def test_one_prompt_progresses_however_short_the_time() -> None:
    plan = make_plan(max_seconds=0.001, seconds=(0.01, 0.001, 0.0, 0.0))
    give(plan, decoding())
    assert give(plan, make_sequence([1] * 200)) == 4
    assert give(plan, make_sequence([1] * 200)) == 0
