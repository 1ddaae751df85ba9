"""Beam search through engine, scheduler and pages: what the rules alone find, whatever happens."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from octavo.core.outputs import DEADLINE_EXCEEDED
from octavo.core.request import EngineRequest
from octavo.core.sampling_params import SamplingParams
from octavo.core.sequence import SequenceState
from octavo.engine.sequences import make_sequences
from octavo.errors import InvalidRequest, PromptTooLong
from octavo.scheduler.scheduler import Scheduler
from tests.engine.beam_rules import found_by_rules
from tests.engine.drive_engine import Rig
from tests.fakes import make_request, make_scheduler

STOPS = [1, 2, 3, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59]
BEAMS = SamplingParams(
    use_beam_search=True, n=3, beam_width=4, max_tokens=12, stop_token_ids=STOPS, length_penalty=0.8
)
PROMPT = "eleven byte"


def expect_answers(rig: Rig, request: EngineRequest, max_new_tokens: int = 10_000) -> None:
    expected = found_by_rules(request, max_new_tokens)
    for index, answer in enumerate(expected):
        (output,) = rig.said[request.request_id, index]
        assert output.token_ids == list(answer.beam.token_ids)
        assert output.cumulative_logprob == answer.beam.logprob
        assert (output.finish_reason, output.stop_reason) == answer.finish
    assert len(expected) == request.sampling_params.n


def beam_scheduler(scheduler: Scheduler | None = None) -> Rig:
    return Rig(scheduler=scheduler or make_scheduler(max_num_seqs=4))


@pytest.mark.parametrize("enable_prefix_caching", [True, False])
@pytest.mark.parametrize("max_num_batched_tokens", [4, 16])
def test_answers_are_those_of_the_rules(
    enable_prefix_caching: bool, max_num_batched_tokens: int
) -> None:
    rig = beam_scheduler(
        make_scheduler(
            max_num_seqs=4,
            enable_prefix_caching=enable_prefix_caching,
            max_num_batched_tokens=max_num_batched_tokens,
        )
    )
    request = make_request(PROMPT, BEAMS)
    rig.answer(request)
    expect_answers(rig, request)


def test_beams_of_a_request_are_in_one_step_and_share_what_they_have_in_common() -> None:
    """A prompt of 42 tokens in pages of 4: ten full ones are there once, the partial one too."""
    rig = beam_scheduler()
    request = make_request(list(range(42)), BEAMS)
    rig.engine.submit(request)
    rows, pages = [], []
    while rig.engine.has_work:
        rig.step()
        rows.append(len(rig.runner.steps[-1].sequences))
        pages.append(rig.engine.stats().num_used_pages)
    expect_answers(rig, request)
    assert rows == [1, 1, 1, *[4] * (len(rows) - 3)]
    assert pages[2] == 11
    assert max(pages) <= 10 + 4 * 4


def test_one_answer_can_be_asked_of_many_beams() -> None:
    rig = beam_scheduler()
    request = make_request(PROMPT, replace(BEAMS, n=1))
    rig.answer(request)
    expect_answers(rig, request)
    assert rig.said.keys() == {("r", 0)}


def test_the_text_is_that_of_the_whole_answer_without_its_stop_token() -> None:
    rig = beam_scheduler()
    rig.engine.submit(make_request(PROMPT, BEAMS))
    rig.engine.submit(
        make_request(PROMPT, replace(BEAMS, include_stop_str_in_output=True), request_id="s")
    )
    rig.drain()
    for index in range(3):
        bare, whole = rig.last(("r", index)), rig.last(("s", index))
        ended = int(bare.finish_reason == "stop")
        shown = bytes(bare.token_ids[: len(bare.token_ids) - ended])
        assert bare.text == shown.decode(errors="replace")
        assert whole.text == bytes(whole.token_ids).decode(errors="replace")
    assert rig.last(("r", 0)).finish_reason == "stop"


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_neither_crowds_nor_preemptions_change_the_answers(data: st.DataObject) -> None:
    """Beams and others in few pages; somebody is preempted now and then, by either way, and
    somebody gives up."""
    draw = random.Random(data.draw(st.integers(0, 2**32)))
    page_tokens = draw.choice((2, 4))
    scheduler = make_scheduler(
        num_pages=draw.randint(24, 60),
        page_tokens=page_tokens,
        max_num_seqs=draw.randint(4, 10),
        max_num_batched_tokens=draw.randint(10, 30),
        enable_prefix_caching=draw.random() < 0.6,
        num_swap_slots=draw.choice((0, 8, 60)),
    )
    rig = beam_scheduler(scheduler)
    requests = [_random_request(draw, str(number)) for number in range(draw.randint(1, 5))]
    every = draw.choice((1000, 2, 3, 7))
    for request in requests:
        rig.engine.submit(request)
    for number in range(3000):
        if not rig.engine.has_work:
            break
        rig.step()
        scheduler.kv.check_invariants()
        running = [one for one in scheduler._running if one.state is SequenceState.RUNNING]
        if running and number % every == every - 1 and number < 300:
            scheduler.preempt(draw.choice(running), swap=draw.random() < 0.5)
            scheduler.kv.check_invariants()
        if draw.random() < 0.01:
            rig.engine.abort(draw.choice(requests).request_id)
    rig.drain()
    for request in requests:
        is_whole = rig.last((request.request_id, 0)).finish_reason != "abort"
        if is_whole and request.sampling_params.use_beam_search:
            longest = scheduler._searches.longest(make_sequences(request, 0)[0])
            expect_answers(rig, request, longest - len(request.prompt_token_ids))
    assert not scheduler._searches._searches
    assert not scheduler._searches.followers
    assert scheduler._slots._num_taken == 0
    assert scheduler.kv.stats().num_swapped_pages == 0


def _random_request(draw: random.Random, name: str) -> EngineRequest:
    prompt = [draw.randint(0, 1) for _ in range(draw.randint(1, 14))]
    n = draw.randint(1, 3)
    if draw.random() < 0.4:
        return make_request(prompt, SamplingParams(n=n, max_tokens=10), request_id=name)
    params = SamplingParams(
        use_beam_search=True,
        n=n,
        beam_width=draw.randint(n, 4),
        max_tokens=draw.randint(1, 14),
        stop_token_ids=STOPS,
        early_stopping=draw.choice((True, False, "never")),
    )
    return make_request(prompt, params, request_id=name)


def test_a_search_ends_where_its_pages_end() -> None:
    """Sixteen pages of 4: the prompt's two full ones, and three for each of the four beams."""
    rig = beam_scheduler(make_scheduler(num_pages=16, max_num_seqs=4))
    params = replace(BEAMS, stop_token_ids=None, max_tokens=50)
    request = make_request(PROMPT, params)
    rig.answer(request)
    expect_answers(rig, request, (2 + 3) * 4 - len(PROMPT))
    assert rig.last(("r", 0)).finish_reason == "length"


def test_a_prompt_that_leaves_no_room_for_beams_is_refused() -> None:
    rig = beam_scheduler(make_scheduler(num_pages=4, max_num_seqs=4))
    with pytest.raises(PromptTooLong):
        rig.engine.submit(make_request("ten bytes.", BEAMS))
    assert not rig.engine.has_work


def test_more_beams_than_slots_are_refused() -> None:
    rig = beam_scheduler(make_scheduler(max_num_seqs=5, reserve_high_priority=0.4))
    with pytest.raises(InvalidRequest, match="beam_width is 4; max_num_seqs, less"):
        rig.engine.submit(make_request(PROMPT, BEAMS))


def test_beams_wait_for_slots_for_all_of_them() -> None:
    rig = beam_scheduler(make_scheduler(max_num_seqs=5))
    others = SamplingParams(n=2, temperature=0.0, max_tokens=6)
    rig.engine.submit(make_request(PROMPT, others, request_id="o"))
    request = make_request("another one", BEAMS)
    rig.engine.submit(request)
    rig.drain()
    expect_answers(rig, request)
    for step in rig.runner.steps:
        names = [item.sequence.request.request_id for item in step.sequences]
        assert names.count("r") == 0 or names.count("o") < 2


@pytest.mark.parametrize("num_steps", [0, 1, 4])
@pytest.mark.parametrize("n", [1, 3])
def test_an_abort_ends_all_beams_with_one_word_per_answer(num_steps: int, n: int) -> None:
    rig = beam_scheduler()
    rig.engine.submit(make_request(PROMPT, replace(BEAMS, n=n)))
    for _ in range(num_steps):
        rig.step()
    rig.engine.abort("r")
    rig.drain()
    assert {key: rig.last(key).finish_reason for key in rig.said} == {
        ("r", index): "abort" for index in range(n)
    }


def test_a_deadline_ends_all_beams() -> None:
    rig = beam_scheduler()
    rig.engine.submit(make_request(PROMPT, BEAMS, deadline=rig.clock() + 1))
    for _ in range(4):
        rig.step()
    rig.clock.advance(2)
    rig.drain()
    errors = [rig.last(("r", index)).error for index in range(3)]
    assert errors == [DEADLINE_EXCEEDED] * 3


@pytest.mark.parametrize("failing", [0, 3])
def test_a_failed_step_ends_all_beams_and_no_others(failing: int) -> None:
    rig = Rig(scheduler=make_scheduler(max_num_seqs=4), fail_on=[failing])
    rig.engine.submit(make_request(PROMPT, BEAMS))
    for _ in range(failing + 1):
        rig.step()
    request = make_request("another one", BEAMS, request_id="s")
    rig.engine.submit(request)
    rig.drain()
    assert [rig.last(("r", index)).finish_reason for index in range(3)] == ["error"] * 3
    expect_answers(rig, request)


def test_generated_tokens_count_once_for_each_answer() -> None:
    rig = beam_scheduler()
    rig.answer(make_request(PROMPT, BEAMS))
    lengths = [len(rig.ids(("r", index))) for index in range(3)]
    assert [rig.times["r", index].num_generation_tokens for index in range(3)] == lengths
    stats = rig.engine.stats()
    assert stats.num_generation_tokens == sum(lengths)
    assert stats.num_prompt_tokens == len(PROMPT)
