"""Virtual time goes as it would on the clock: against schedules computed by hand."""

from __future__ import annotations

import itertools

import pytest

from octavo.bench.lengths import Fixed, LogNormal
from octavo.core.schedule import ScheduledSequence, ScheduledStep, load_of
from octavo.core.step_load import num_attended_tokens
from octavo.errors import ConfigError
from octavo.simulate.replica import make_sequence
from octavo.simulate.synthetic import Recipe, make_trace
from tests.simulate.machines import LinearTimes, request, run_of


def test_one_request_takes_its_steps() -> None:
    """20 tokens of prompt in one step (30 ms), then four decodes (11 ms each)."""
    run = run_of([request(at=3.0)])
    finished = run.records.all_finished()
    assert list(finished.ttft) == pytest.approx([0.030])
    assert list(finished.latency) == pytest.approx([0.030 + 4 * 0.011])
    assert finished.tpot() == pytest.approx([0.011])
    assert finished.per_token() == pytest.approx([0.074 / 5])
    assert list(finished.num_output_tokens) == [5]
    assert run.records.gaps.percentiles([50, 100]) == pytest.approx([0.011, 0.011], abs=1e-5)


def test_a_request_that_comes_during_a_step_waits_for_its_end() -> None:
    """The second comes 5 ms into the prompt of the first: 25 ms of waiting, then both in a step."""
    run = run_of([request(at=0.0), request(at=0.005)])
    assert list(run.records.all_finished().ttft) == pytest.approx([0.030, 0.025 + 0.01 + 0.021])


def test_time_outside_of_steps_delays_a_request_once() -> None:
    run = run_of([request()], times=LinearTimes(request_seconds=1.0))
    assert list(run.records.all_finished().ttft) == pytest.approx([1.030])


def test_an_arrival_takes_time_from_those_who_run() -> None:
    """The second comes 5 ms into the prompt of the first, which no idle engine had to wait for."""
    times = LinearTimes(arrival_seconds=0.1)
    run = run_of([request(at=0.0), request(at=0.005)], times=times)
    finished = run.records.all_finished()
    assert list(finished.ttft) == pytest.approx([0.030, 0.025 + 0.1 + 0.01 + 0.021])
    assert run.records.gaps.percentiles([100]) == pytest.approx([0.131], abs=1e-5)


def test_answers_end_at_the_clients_bound() -> None:
    run = run_of([request(answer=50, max_tokens=4), request(answer=3, max_tokens=4)])
    assert sorted(run.records.all_finished().num_output_tokens) == [3, 4]


def test_the_engine_does_not_learn_an_answers_length() -> None:
    sequence = make_sequence(request(answer=7, max_tokens=90, timeout=2.0), 3, sent=5.0)
    assert sequence.request.sampling_params.max_tokens == 90
    assert sequence.request.deadline == 7.0
    assert sequence.num_final_tokens == 27


def test_clients_of_a_closed_loop_wait_for_their_answers() -> None:
    """Two clients share three requests: the third starts when the first of the two has ended."""
    requests = [request(at=99.0, answer=answer) for answer in (2, 4, 2)]
    run = run_of(requests, clients=2)
    finished = run.records.all_finished()
    assert len(finished) == 3
    # 20 | 20 and 1 | (1) 20 and 1 | 1 and 1: no step ever holds more than two sequences
    assert max(point.num_running for point in run.records.timeline.points) <= 2
    assert run.records.first_seconds == 0.0


def test_a_prompt_that_can_never_run_is_counted_and_holds_up_nobody() -> None:
    run = run_of([request(prompt=5000), request(at=1.0)])
    assert run.records.num_too_long.total() == 1
    assert len(run.records.all_finished()) == 1


def test_replicas_share_the_load() -> None:
    """Ten requests at once on ten replicas take as long as one alone."""
    run = run_of([request() for _ in range(10)], num_replicas=10)
    assert list(run.records.all_finished().latency) == pytest.approx([0.074] * 10)


@pytest.mark.parametrize("router", ["round_robin", "random", "power_of_two", "prefix_aware"])
def test_every_request_ends_behind_every_router(router: str) -> None:
    recipe = Recipe(
        num_requests=200,
        rate=50.0,
        input_lengths=LogNormal(20, 1.0, 100),
        output_lengths=LogNormal(10, 1.0, 60),
        num_prefixes=3,
        num_prefix_tokens=32,
    )
    run = run_of(make_trace(recipe), num_replicas=5, router=router)
    finished = run.records.all_finished()
    assert len(finished) == 200
    assert sum(len(replica.steps.end_seconds) for replica in run.replicas) > 200


def test_equal_seeds_give_equal_runs() -> None:
    recipe = Recipe(
        num_requests=100, rate=30.0, input_lengths=Fixed(30), output_lengths=LogNormal(9, 1.0, 60)
    )
    first, second = (run_of(make_trace(recipe), num_pages=40) for _ in range(2))
    assert first.records.all_finished() == second.records.all_finished()


def test_few_pages_make_preemptions_and_all_tokens_still_come() -> None:
    requests = [request(prompt=30, answer=60) for _ in range(8)]
    run = run_of(requests, num_pages=20)
    assert run.replicas[0].scheduler.num_preemptions > 0
    assert list(run.records.all_finished().num_output_tokens) == [60] * 8


def test_gaps_count_every_token_but_the_first_whatever_happens_in_between() -> None:
    requests = [request(at=i / 100, prompt=30, answer=40) for i in range(12)]
    run = run_of(requests, num_pages=20)
    finished = run.records.all_finished()
    whole = sum(b - a for a, b in zip(finished.ttft, finished.latency, strict=True))
    count = 12 * 39
    assert run.records.gaps.mean * count == pytest.approx(whole, rel=0.01)


def test_shared_beginnings_are_computed_once() -> None:
    requests = [request(at=float(i), prompt=64, prefix=((1, 48),)) for i in range(4)]
    run = run_of(requests)
    cold, *warm = run.records.all_finished().ttft
    assert cold == pytest.approx(0.01 + 0.064)
    assert warm == pytest.approx([0.01 + 0.016] * 3)


def test_a_load_sums_what_its_rows_attend_to() -> None:
    step = ScheduledStep()
    for start, num_tokens, samples in ((9, 1, True), (0, 4, False), (4, 3, True)):
        sequence = make_sequence(request(prompt=20), 0, 0.0)
        step.sequences.append(ScheduledSequence(sequence, start, num_tokens, samples))
        step.num_tokens += num_tokens
    load = load_of(step)
    assert load[:3] == (8, 3, 2)
    assert load.num_decode_attended == 10
    assert load.num_prompt_attended == (1 + 2 + 3 + 4) + (5 + 6 + 7)
    assert load.num_context_tokens == 10 + 4 + 7
    assert num_attended_tokens(4, 3) == 18


def test_the_timeline_is_bounded_and_ascends() -> None:
    run = run_of([request(at=i / 20) for i in range(1500)])
    points = run.records.timeline.points
    assert 100 < len(points) <= 400
    assert all(a.seconds < b.seconds for a, b in itertools.pairwise(points))


def test_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ConfigError, match="--replicas is 0"):
        run_of([request()], num_replicas=0)
    with pytest.raises(ConfigError, match="at least one request"):
        run_of([])
    with pytest.raises(ConfigError, match="--num-pages is 0"):
        run_of([request()], num_pages=0)
    with pytest.raises(ConfigError, match=r"page_windows are \[512, 0\]"):
        run_of([request()], page_windows=(512, 0))


def test_layers_with_windows_leave_room_for_more_sequences() -> None:
    requests = [request(at=0.0, prompt=1000, answer=100) for _ in range(8)]
    narrow, wide = (
        run_of(requests, num_pages=300, page_windows=windows)
        for windows in ((0, 64, 64), (0, 0, 0))
    )
    assert narrow.records.last_seconds < wide.records.last_seconds
