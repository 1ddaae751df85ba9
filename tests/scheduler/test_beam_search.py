"""How many pages beams may need, and what keeps a search together among other sequences."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from octavo.core.page_groups import PageGroups
from octavo.core.sampling_params import SamplingParams
from octavo.core.sequence import SequenceState
from octavo.scheduler.beam_search import max_beam_stripes, max_beam_tokens
from octavo.scheduler.promises import PagePromises
from octavo.scheduler.scheduler import Scheduler
from tests.fakes import NOW, make_scheduler, make_sequence
from tests.scheduler.drive import checked_step, runner_for

BEAMS = SamplingParams(use_beam_search=True, n=3, max_tokens=40)


@given(
    num_prompt=st.integers(1, 200),
    num_pages=st.integers(1, 300),
    width=st.integers(1, 9),
    page_tokens=st.sampled_from([1, 4, 16]),
    windows=st.sampled_from([(0,), (0, 5), (30, 7)]),
)
def test_the_longest_beams_that_fit_are_the_longest(
    num_prompt: int, num_pages: int, width: int, page_tokens: int, windows: tuple[int, ...]
) -> None:
    groups = PageGroups(windows, page_tokens, max_step_tokens=9)
    num_shared = num_prompt // page_tokens

    def pages(num_tokens: int) -> int:
        num_stripes = max_beam_stripes(num_prompt, num_tokens, width, page_tokens)
        return groups.num_pages(num_shared) + (num_stripes - num_shared) * groups.num

    longest = max_beam_tokens(num_prompt, num_pages, width, groups)
    if longest >= num_prompt:
        assert pages(longest) <= num_pages < pages(longest + 1)


def test_a_promise_to_beams_is_one_page_for_each_at_first() -> None:
    sizes = [PagePromises.size_for(num_preemptions, 30, 4) for num_preemptions in range(4)]
    assert sizes == [4, 8, 16, 30]


def _running_search(scheduler: Scheduler) -> None:
    """Three beams that have a first token each."""
    for index in range(3):
        scheduler.add(make_sequence([1, 2, 3, 4, 5], BEAMS, index=index), NOW)
    runner = runner_for(scheduler)
    step = checked_step(scheduler)
    scheduler.apply(step, runner.run(step))


def test_a_search_takes_the_slots_of_all_its_beams_from_the_start() -> None:
    scheduler = make_scheduler(max_num_seqs=4)
    _running_search(scheduler)
    for name in "ab":
        scheduler.add(make_sequence([7, 8], request_id=name), NOW)
    step = checked_step(scheduler)
    names = [item.sequence.request.request_id for item in step.sequences]
    assert names == ["r", "r", "r", "a"]
    assert scheduler.wait_reason == "slots"


def test_who_preempts_or_ends_one_beam_preempts_or_ends_all() -> None:
    scheduler = make_scheduler()
    _running_search(scheduler)
    beams = list(scheduler._running)
    assert len(beams) == 3
    scheduler.preempt(beams[2], swap=False)
    assert {beam.state for beam in beams} == {SequenceState.PREEMPTED}
    assert (scheduler.num_running, scheduler.num_preemptions) == (0, 1)
    assert scheduler.kv.stats().num_used_pages == 0
    scheduler.finish(beams[1])
    assert {beam.state for beam in beams} == {SequenceState.FINISHED}
    assert not scheduler.has_work


def test_the_rest_of_a_senior_search_is_no_victim() -> None:
    """Pages lack for the second token of a junior: it goes, not the beams of the one before it."""
    scheduler = make_scheduler(num_pages=12, max_num_seqs=8, enable_prefix_caching=False)
    _running_search(scheduler)
    runner = runner_for(scheduler)
    junior = make_sequence(list(range(24)), SamplingParams(max_tokens=30), request_id="j")
    scheduler.add(junior, NOW)
    for _ in range(200):
        if not scheduler.has_work:
            break
        step = checked_step(scheduler)
        for sequence in scheduler._running:
            assert sequence.num_preemptions == 0 or sequence is junior
        scheduler.apply(step, runner.run(step))
    assert junior.num_preemptions > 0
