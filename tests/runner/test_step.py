"""Step buffers say exactly what a plain loop over the scheduled sequences says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.core.schedule import ScheduledSequence, ScheduledStep
from octavo.runner.step import Step, StepLimits
from tests.models.checks import sequence_of

LIMITS = StepLimits(max_tokens=200, max_sequences=6, max_logit_rows=60, max_context_tokens=128)


@st.composite
def steps(draw: st.DrawFn) -> ScheduledStep:
    scheduled = []
    for number in range(draw(st.integers(0, 6))):
        length = draw(st.integers(1, 100))
        sequence = sequence_of(
            draw(st.lists(st.integers(0, 999), min_size=length, max_size=length))
        )
        pages = range(50 * number, 50 * number + len(sequence.page_table))
        sequence.page_table = draw(st.permutations(list(pages)))
        is_decode = draw(st.booleans())
        start = length - 1 if is_decode else draw(st.integers(max(0, length - 30), length - 1))
        num_tokens = draw(st.integers(1, length - start))
        scheduled.append(
            ScheduledSequence(
                sequence=sequence,
                start=start,
                num_tokens=num_tokens,
                samples=start + num_tokens == length,
                wants_prompt_logprobs=num_tokens < 10 and draw(st.booleans()),
            )
        )
    return ScheduledStep(scheduled, sum(one.num_tokens for one in scheduled))


def _check(step: Step, scheduled: ScheduledStep) -> None:
    row = 0
    logit_rows = []
    for index, one in enumerate(scheduled.sequences):
        assert step.query_starts[index] == row
        assert step.context_lengths[index] == one.start + one.num_tokens
        table = one.sequence.page_table
        assert step.page_tables[index, : len(table)].tolist() == table
        for position in range(one.start, one.start + one.num_tokens):
            assert step.token_ids[row] == one.sequence.token_ids[position]
            assert step.positions[row] == position
            assert step.token_sequences[row] == index
            assert step.slots[row].tolist() == [table[position // 16] * 16 + position % 16]
            is_last = position == one.start + one.num_tokens - 1
            if one.wants_prompt_logprobs or (one.samples and is_last):
                logit_rows.append(row)
            row += 1
    assert step.query_starts[len(scheduled.sequences)] == row == step.num_tokens
    assert step.num_sequences == len(scheduled.sequences)
    assert step.logit_rows[: step.num_logit_rows].tolist() == logit_rows


@given(st.lists(steps(), min_size=1, max_size=4))
def test_every_buffer_says_what_was_scheduled(several: list[ScheduledStep]) -> None:
    step = Step(LIMITS)
    for scheduled in several:
        step.fill(scheduled)
        _check(step, scheduled)


def _decode(table: list[int], length: int) -> ScheduledStep:
    sequence = sequence_of(range(length))
    sequence.page_table = table
    return ScheduledStep([ScheduledSequence(sequence, length - 1, 1, samples=True)], 1)


def test_a_page_that_was_replaced_in_place_is_seen() -> None:
    step = Step(LIMITS)
    table = [4, 5, 6]
    step.fill(_decode(table, 40))
    table[1] = 9
    step.fill(_decode(table, 40))
    assert step.page_tables[0, :3].tolist() == [4, 9, 6]


def test_a_table_that_grew_or_shrank_is_seen() -> None:
    step = Step(LIMITS)
    for table in ([4, 5], [4, 5, 7], [4], [8, 5, 7]):
        step.fill(_decode(table, 16 * len(table)))
        assert step.page_tables[0, : len(table)].tolist() == table


def test_buffers_stay_where_they_are() -> None:
    step = Step(LIMITS)
    places = [step.token_ids.ctypes.data, step.page_tables.ctypes.data, step.slots.ctypes.data]
    step.fill(_decode([1, 2], 20))
    assert places == [
        step.token_ids.ctypes.data,
        step.page_tables.ctypes.data,
        step.slots.ctypes.data,
    ]
    assert step.token_ids.dtype == step.page_tables.dtype == np.int32


def test_a_step_beyond_the_limits_is_refused() -> None:
    step = Step(LIMITS)
    with pytest.raises(ValueError, match="at most 6"):
        step.fill(ScheduledStep(_decode([0], 3).sequences * 7, 7))
    one = _decode([0], 3).sequences[0]
    with pytest.raises(ValueError, match="at most 200"):
        step.fill(ScheduledStep([one], 201))
    long = sequence_of(range(128))
    wide = ScheduledSequence(long, 0, 100, samples=False, wants_prompt_logprobs=True)
    with pytest.raises(ValueError, match="100 logit rows; at most 60"):
        step.fill(ScheduledStep([wide], 100))
