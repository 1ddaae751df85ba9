"""Cases and steps of the latency benchmark: everything computed once, nothing shared."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.bench.latency import (
    Case,
    LatencyBench,
    Limits,
    decode_step,
    make_sequences,
    plan_cases,
    prompt_steps,
)
from octavo.core.sequence import PAGE_TOKENS
from tests.fakes import FakeRunner

LIMITS = Limits(max_model_len=1024, max_num_seqs=8, num_pages=128, max_prompt_tokens=1024)


@given(st.integers(1, 200), st.integers(1, 6), st.integers(1, 64))
def test_prompt_steps_compute_every_token_once(context: int, batch: int, most: int) -> None:
    sequences = make_sequences(Case(context, batch), 4, vocab_size=100)
    steps = list(prompt_steps(sequences, most))
    assert all(step.num_tokens == most for step in steps[:-1])
    assert all(1 <= step.num_tokens <= most for step in steps)
    spans = {id(sequence): [] for sequence in sequences}  # type: ignore[var-annotated]
    for step in steps:
        assert step.num_tokens == sum(one.num_tokens for one in step.sequences)
        for one in step.sequences:
            stop = one.start + one.num_tokens
            spans[id(one.sequence)].append((one.start, stop))
            assert one.samples == (stop == context)
    for pieces in spans.values():
        assert [start for start, _ in pieces] == [0, *(stop for _, stop in pieces[:-1])]
        assert pieces[-1][1] == context


@given(st.integers(1, 200), st.integers(1, 6), st.integers(1, 40))
def test_sequences_have_pages_enough_and_of_their_own(
    context: int, batch: int, decodes: int
) -> None:
    sequences = make_sequences(Case(context, batch), decodes, vocab_size=100)
    for sequence in sequences:
        assert len(sequence.page_table) * PAGE_TOKENS >= context + decodes
    for one, other in itertools.combinations(sequences, 2):
        assert not set(one.page_table) & set(other.page_table)
    assert all(one.start == context - 1 for one in decode_step(sequences).sequences)


def test_cases_that_fit_are_planned_and_others_explained() -> None:
    cases, refused = plan_cases([512, 128, 1024, 4096], [1, 4, 16], 32, LIMITS)
    assert cases == [Case(128, 1), Case(128, 4), Case(512, 1), Case(992, 1)]
    reasons = "\n".join(refused)
    assert "context 4096, batch 1: longer than the model's 1024 tokens" in reasons
    assert "context 128, batch 16: more than --max-num-seqs 8" in reasons
    assert "context 512, batch 4: 136 pages" in reasons
    assert len(cases) + len(refused) == 12


def test_cases_cost_no_more_prompt_tokens_than_allowed() -> None:
    limits = Limits(max_model_len=1024, max_num_seqs=8, num_pages=999, max_prompt_tokens=511)
    cases, refused = plan_cases([128, 1000], [1, 4], 8, limits)
    assert cases == [Case(128, 1), Case(1000, 1)]
    assert "context 128, batch 4: 512 prompt tokens" in refused[0]


def test_a_measurement_has_a_time_for_each_repeat_and_step() -> None:
    ticks = itertools.count()
    runner = FakeRunner(num_pages=6, page_tokens=PAGE_TOKENS)
    bench = LatencyBench(runner, 100, max_step_tokens=16, clock=lambda: float(next(ticks)))
    times = bench.measure(Case(20, 3), num_decodes=5, repeats=2)
    assert times.prefill_seconds == [1.0] * 2
    assert times.decode_seconds == [1.0] * 10


@pytest.mark.parametrize("context", [1, 15, 16, 17])
def test_a_context_of_any_length_can_be_planned(context: int) -> None:
    assert plan_cases([context], [1], 1, LIMITS) == ([Case(context, 1)], [])
