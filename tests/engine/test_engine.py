"""Every sequence ends once, whatever happens; counters and times are right."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

import pytest

from octavo.core.outputs import DEADLINE_EXCEEDED
from octavo.core.sampling_params import SamplingParams
from octavo.engine.engine import ENGINE_DEAD, OUTPUT_FAILED, STEP_FAILED, Engine
from octavo.errors import EngineDead, InvalidRequest, PromptTooLong
from tests.engine.drive_engine import Rig, saying
from tests.fakes import (
    ByteDetokenizer,
    ByteTokenizer,
    FakeRunner,
    make_request,
    make_scheduler,
)


def greedy(max_tokens: int) -> SamplingParams:
    return SamplingParams(temperature=0.0, max_tokens=max_tokens)


def test_a_new_engine_has_nothing_to_do_and_a_step_of_it_says_nothing() -> None:
    rig = Rig()
    assert not rig.engine.has_work
    assert rig.step() == []
    assert rig.engine.stats().num_steps == 0


def test_every_sequence_of_every_request_ends_once() -> None:
    rig = Rig()
    for i in range(5):
        params = SamplingParams(n=1 + i % 3, max_tokens=i)
        rig.engine.submit(make_request(f"prompt {i}", params, request_id=str(i)))
    rig.drain()
    assert set(rig.said) == {(str(i), k) for i in range(5) for k in range(1 + i % 3)}


def test_equal_client_ids_are_no_problem_of_the_engine_which_refuses_a_double() -> None:
    """A12: ids are ours; a second use of a live one is refused and the first is unharmed."""
    rig = Rig()
    rig.engine.submit(make_request("a"))
    with pytest.raises(InvalidRequest, match="in use"):
        rig.engine.submit(make_request("b"))
    rig.drain()
    assert len(rig.ids(("r", 0))) == 8


def test_a_prompt_that_no_pool_of_this_size_can_hold_is_refused() -> None:
    rig = Rig(scheduler=make_scheduler(num_pages=4, page_tokens=4))
    with pytest.raises(PromptTooLong, match="has 16 tokens; the engine holds 16"):
        rig.engine.submit(make_request("x" * 16))
    assert not rig.engine.has_work


def test_stop_strings_without_a_tokenizer_are_refused() -> None:
    engine = Engine(make_scheduler(), FakeRunner(64, 4), None)
    with pytest.raises(InvalidRequest, match="need a tokenizer"):
        engine.submit(make_request("a", SamplingParams(stop="x")))


def test_without_a_tokenizer_ids_still_come() -> None:
    engine = Engine(make_scheduler(), FakeRunner(64, 4), None)
    engine.submit(make_request("a", greedy(1)))
    (output,) = engine.step().outputs
    assert len(output.token_ids) == 1


def until_waiting(rig: Rig) -> None:
    assert rig.engine.stats().num_waiting == 3


def until_reading(rig: Rig) -> None:
    rig.step()
    assert ("victim", 0) not in rig.said


def until_answering(rig: Rig) -> None:
    while len(rig.said.get(("victim", 2), ())) < 3:
        rig.step()


@pytest.mark.parametrize("until", [until_waiting, until_reading, until_answering])
def test_an_abort_ends_all_sequences_at_once_and_frees_their_pages(
    until: Callable[[Rig], None],
) -> None:
    """L1, L2."""
    rig = Rig(scheduler=make_scheduler(max_num_batched_tokens=8))
    rig.engine.submit(
        make_request("x" * 20, SamplingParams(n=3, max_tokens=50), request_id="victim")
    )
    until(rig)
    rig.engine.abort("victim")
    rig.engine.abort("victim")
    assert rig.engine.stats().num_used_pages == 0
    said = rig.step()
    assert [(out.index, out.finish_reason) for out in said] == [(i, "abort") for i in range(3)]
    assert not rig.engine.has_work
    rig.drain()


def test_a_request_that_gave_up_in_the_queue_is_never_computed() -> None:
    """L9."""
    rig = Rig(scheduler=make_scheduler(max_num_seqs=1))
    for name in ("running", "gone"):
        rig.engine.submit(make_request(name, request_id=name))
    rig.step()
    rig.engine.abort("gone")
    rig.drain()
    computed = {item.sequence.key for step in rig.runner.steps for item in step.sequences}
    assert computed == {("running", 0)}


def test_aborting_the_unknown_or_the_finished_is_harmless() -> None:
    rig = Rig()
    rig.engine.abort("nobody")
    rig.answer(make_request("a"))
    rig.engine.abort("r")
    rig.drain()
    assert rig.last(("r", 0)).finish_reason == "length"


def test_a_request_id_can_be_used_again_after_its_end() -> None:
    rig = Rig()
    first = rig.answer(make_request("a"))
    rig.said.clear()
    rig.times.clear()
    assert [out.token_ids for out in rig.answer(make_request("a"))] == [o.token_ids for o in first]


def test_a_failed_step_ends_its_sequences_only_and_the_engine_lives_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rig = Rig(scheduler=make_scheduler(max_num_seqs=2), fail_on=[1])
    for i in range(3):
        rig.engine.submit(make_request("abc", greedy(4), request_id=str(i)))
    with caplog.at_level(logging.ERROR):
        rig.drain()
    ends = {key: rig.last(key) for key in rig.said}
    assert {key[0]: end.finish_reason for key, end in ends.items()} == {
        "0": "error",
        "1": "error",
        "2": "length",
    }
    assert ends["0", 0].error == STEP_FAILED
    assert "secret detail" not in STEP_FAILED
    assert "secret detail" in caplog.text


def test_a_survivor_of_a_failed_step_answers_as_if_alone() -> None:
    alone = Rig()
    alone.answer(make_request("abc", request_id="2"))
    rig = Rig(scheduler=make_scheduler(max_num_seqs=2), fail_on=[1])
    for i in range(3):
        rig.engine.submit(make_request("abc", greedy(8), request_id=str(i)))
    rig.drain()
    assert rig.ids(("2", 0)) == alone.ids(("2", 0))


def test_repeated_failures_end_everybody_and_then_the_engine() -> None:
    rig = Rig(scheduler=make_scheduler(max_num_seqs=1), fail_on=range(100))
    for i in range(5):
        rig.engine.submit(make_request("abc", request_id=str(i)))
    with pytest.raises(EngineDead):
        rig.drain()
    assert [rig.last((str(i), 0)).error for i in range(5)] == [STEP_FAILED] * 3 + [ENGINE_DEAD] * 2
    assert rig.engine.has_work, "or nobody would step it and learn that it is dead"
    with pytest.raises(EngineDead):
        rig.engine.submit(make_request("abc", request_id="late"))
    rig.scheduler.kv.check_invariants()
    assert rig.engine.stats().num_used_pages == 0


def test_failures_with_successes_between_do_not_kill() -> None:
    rig = Rig(scheduler=make_scheduler(max_num_seqs=1), fail_on=[0, 1, 3, 4])
    for i in range(6):
        rig.engine.submit(make_request("abc", greedy(1), request_id=str(i)))
    rig.drain()
    reasons = [rig.last((str(i), 0)).finish_reason for i in range(6)]
    assert reasons == ["error", "error", "length", "error", "error", "length"]


def test_a_result_that_does_not_answer_the_step_is_a_failed_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = Rig()
    run = rig.runner.run

    def lossy(step: object) -> object:
        result = run(step)  # type: ignore[arg-type]
        result.results[0].token_id = None
        return result

    monkeypatch.setattr(rig.runner, "run", lossy)
    rig.engine.submit(make_request("abc"))
    rig.drain()
    assert rig.last(("r", 0)).error == STEP_FAILED


def test_a_detokenizer_that_breaks_ends_one_sequence_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def push(_: ByteDetokenizer, token_id: int) -> str:
        if token_id == ord("X"):
            raise ValueError("secret detail")
        return chr(token_id)

    monkeypatch.setattr(ByteDetokenizer, "push", push)
    rig = Rig(choose=lambda context, _: ord("X") if context[0] == ord("b") else ord("y"))
    rig.engine.submit(make_request("b", request_id="bad"))
    rig.engine.submit(make_request("g", request_id="good"))
    rig.drain()
    assert rig.last(("bad", 0)).error == OUTPUT_FAILED
    assert rig.text(("good", 0)) == "y" * 8


def test_times_follow_the_stages_of_a_sequence() -> None:
    rig = Rig()
    rig.clock.advance(2.0)
    rig.runner._on_run = lambda _: rig.clock.advance(0.5)
    rig.answer(make_request("abc", greedy(4)))
    times = rig.times["r", 0]
    assert times.queue_seconds == pytest.approx(2.0)
    assert times.prefill_seconds == pytest.approx(0.5)
    assert times.decode_seconds == pytest.approx(1.5)
    assert (times.num_prompt_tokens, times.num_generation_tokens) == (3, 4)


def test_a_request_that_never_ran_was_in_the_queue_all_the_time() -> None:
    rig = Rig()
    rig.engine.submit(make_request("abc"))
    rig.clock.advance(3.0)
    rig.engine.abort("r")
    rig.drain()
    times = rig.times["r", 0]
    assert (times.queue_seconds, times.prefill_seconds, times.decode_seconds) == (3.0, 0.0, 0.0)


def test_counters_count_each_prompt_once_and_each_token() -> None:
    rig = Rig()
    rig.runner._on_run = lambda _: rig.clock.advance(0.25)
    rig.answer(make_request("abcdefghij", SamplingParams(n=2, max_tokens=4)))
    stats = rig.engine.stats()
    assert (stats.num_prompt_tokens, stats.num_generation_tokens) == (10, 8)
    assert stats.num_steps == len(rig.runner.steps)
    assert stats.num_step_tokens == sum(step.num_tokens for step in rig.runner.steps)
    assert stats.step_seconds == pytest.approx(0.25 * stats.num_steps)
    assert (stats.prefix_cache_queries, stats.prefix_cache_hits) == (10, 0)


def test_tokens_drawn_from_undefined_logits_are_counted_and_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    rig = Rig()
    run = rig.runner.run
    monkeypatch.setattr(rig.runner, "run", lambda step: replace(run(step), num_undefined_rows=1))
    rig.answer(make_request("ab", greedy(3)))
    assert rig.engine.stats().num_undefined_rows == rig.engine.stats().num_steps == 3
    assert caplog.text.count("NaN") == 1


def test_a_second_equal_prompt_is_served_by_the_cache_and_says_so() -> None:
    rig = Rig()
    prompt = "a common beginning"
    rig.answer(make_request(prompt, request_id="first"))
    answer = rig.answer(make_request(prompt, request_id="second"))
    assert rig.said["first", 0][0].num_cached_tokens == 0
    assert answer[0].num_cached_tokens == 16
    assert rig.ids(("first", 0)) == rig.ids(("second", 0))


def seeds_of(rig: Rig, request_id: str) -> list[int]:
    return [sequence.seed for sequence in rig.engine._live[request_id]]


def test_a_given_seed_is_used_and_counts_up_over_n_modulo_2_to_the_64() -> None:
    rig = Rig()
    rig.engine.submit(make_request("a", SamplingParams(n=3, seed=2**64 - 2)))
    assert seeds_of(rig, "r") == [2**64 - 2, 2**64 - 1, 0]


def test_a_negative_seed_wraps() -> None:
    rig = Rig()
    rig.engine.submit(make_request("a", SamplingParams(seed=-1)))
    assert seeds_of(rig, "r") == [2**64 - 1]


def test_seeds_of_the_unseeded_follow_from_the_engine_s_seed() -> None:
    def drawn(seed: int) -> list[list[int]]:
        rig = Rig(seed=seed)
        for name in "ab":
            rig.engine.submit(make_request("x", SamplingParams(n=2), request_id=name))
        return [seeds_of(rig, name) for name in "ab"]

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)
    assert drawn(1)[0] != drawn(1)[1]


def test_the_context_length_ends_an_answer_without_max_tokens() -> None:
    rig = Rig(scheduler=make_scheduler(max_model_len=10))
    rig.answer(make_request("abcd", SamplingParams(temperature=0.0, max_tokens=None)))
    assert len(rig.ids(("r", 0))) == 6
    assert rig.last(("r", 0)).finish_reason == "length"


def test_the_tokenizer_of_the_fakes_satisfies_what_the_engine_asks() -> None:
    rig = Rig(choose=saying("ok"))
    assert ByteTokenizer().decode([*b"ok"]) == "ok"
    rig.answer(make_request("?"))
    assert rig.text(("r", 0)) == "ok"


def test_what_expires_in_the_queue_is_never_computed() -> None:
    """L9."""
    rig = Rig(scheduler=make_scheduler(max_num_seqs=1))
    rig.engine.submit(make_request("abc", SamplingParams(max_tokens=30), request_id="first"))
    deadline = rig.clock.now + 1
    rig.engine.submit(make_request("xyz", request_id="late", deadline=deadline))
    rig.step()
    rig.clock.advance(2)
    rig.step()
    assert (rig.last(("late", 0)).finish_reason, rig.last(("late", 0)).error) == (
        "error",
        DEADLINE_EXCEEDED,
    )
    rig.drain()
    computed = {item.sequence.key for step in rig.runner.steps for item in step.sequences}
    assert computed == {("first", 0)}
    assert rig.engine.stats().num_expired == 1


def test_what_expires_while_it_runs_ends_with_an_error_and_its_pages_are_free() -> None:
    rig = Rig()
    deadline = rig.clock.now + 1
    params = SamplingParams(max_tokens=30, n=2)
    rig.engine.submit(make_request("abc", params, request_id="late", deadline=deadline))
    for _ in range(3):
        rig.step()
    rig.clock.advance(1)
    rig.step()
    assert [rig.last(("late", index)).error for index in range(2)] == [DEADLINE_EXCEEDED] * 2
    rig.drain()
