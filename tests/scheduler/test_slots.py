"""Whom reserved slots and tokens let in before others who wait for more of them."""

from __future__ import annotations

import pytest

from octavo.core.sampling_params import SamplingParams
from octavo.core.sequence import Sequence, SequenceState
from octavo.scheduler.scheduler import Scheduler
from tests.fakes import NOW, FakeRunner, make_scheduler, make_sequence
from tests.scheduler.drive import drain, one_step, runner_for

BEAMS = SamplingParams(use_beam_search=True, n=3, max_tokens=4)


def greedy(max_tokens: int) -> SamplingParams:
    return SamplingParams(temperature=0.0, max_tokens=max_tokens)


def add_search(scheduler: Scheduler, prompt: list[int]) -> Sequence:
    """Three beams of no high class. Their lead."""
    beams = [make_sequence(prompt, BEAMS, request_id="search", index=i) for i in range(3)]
    for beam in beams:
        scheduler.add(beam, NOW)
    return beams[0]


def add_urgent(scheduler: Scheduler, name: str, max_tokens: int = 6) -> Sequence:
    urgent = make_sequence([9, 9], greedy(max_tokens), request_id=name, priority=-1)
    scheduler.add(urgent, NOW)
    return urgent


def crowded(reserved_share: float) -> tuple[Scheduler, FakeRunner]:
    """Five slots: one long answer runs, and three beams wait for more than there are."""
    scheduler = make_scheduler(max_num_seqs=5, reserve_high_priority=reserved_share)
    runner = runner_for(scheduler)
    scheduler.add(make_sequence([1, 2], greedy(30), request_id="long"), NOW)
    one_step(scheduler, runner)
    return scheduler, runner


def test_the_urgent_start_before_a_search_that_lacks_slots() -> None:
    scheduler, runner = crowded(0.4)
    lead = add_search(scheduler, [5, 6, 7])
    first, second, third = (add_urgent(scheduler, name) for name in "abc")
    one_step(scheduler, runner)
    assert lead.state is SequenceState.WAITING
    states = [one.state for one in (first, second, third)]
    assert states == [SequenceState.RUNNING, SequenceState.RUNNING, SequenceState.WAITING]
    assert scheduler.waiting_by_reason()["slots"] >= 2
    drain(scheduler, runner=runner)


def test_nobody_overtakes_where_nothing_is_reserved() -> None:
    scheduler = make_scheduler(max_num_seqs=3)
    runner = runner_for(scheduler)
    scheduler.add(make_sequence([1, 2], greedy(8), request_id="long"), NOW)
    one_step(scheduler, runner)
    lead, urgent = add_search(scheduler, [5, 6, 7]), add_urgent(scheduler, "a")
    one_step(scheduler, runner)
    assert (lead.state, urgent.state) == (SequenceState.WAITING,) * 2
    drain(scheduler, runner=runner)


def test_a_search_gets_its_turn_however_many_urgent_ones_come() -> None:
    """They take no more than what is reserved for them, so slots for it come together."""
    scheduler, runner = crowded(0.4)
    lead = add_search(scheduler, [5, 6, 7])
    for number in range(60):
        for name in "ab":
            add_urgent(scheduler, f"{name}{number}", max_tokens=5)
        one_step(scheduler, runner)
        if lead.is_finished:
            break
    assert lead.is_finished
    drain(scheduler, runner=runner)


@pytest.mark.parametrize(("share", "expected"), [(0.5, [8, 2]), (0.0, [16])])
def test_the_urgent_start_behind_a_prompt_that_has_used_up_the_others_tokens(
    share: float, expected: list[int]
) -> None:
    scheduler = make_scheduler(max_num_batched_tokens=16, reserve_high_priority=share)
    runner = runner_for(scheduler)
    scheduler.add(make_sequence([1] * 60, greedy(1), request_id="long"), NOW)
    scheduler.add(make_sequence([2] * 60, greedy(1), request_id="next"), NOW)
    add_urgent(scheduler, "a")
    one_step(scheduler, runner)
    assert [item.num_tokens for item in runner.steps[-1].sequences] == expected
    drain(scheduler, runner=runner)
