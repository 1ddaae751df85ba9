"""Who runs, who waits and who gives way: single cases. Properties are in the file beside."""

from __future__ import annotations

import pytest

from octavo.core.sampling_params import SamplingParams
from octavo.core.sequence import Sequence, SequenceState
from octavo.errors import ConfigError
from octavo.kv.kv_manager import KvManager
from octavo.scheduler.config import SchedulerConfig
from octavo.scheduler.policies.fcfs import Fcfs
from octavo.scheduler.policy import Ticket
from octavo.scheduler.scheduler import Scheduler
from octavo.scheduler.stopping import Finish
from tests.fakes import NOW, make_scheduler, make_sequence
from tests.scheduler.drive import drain, one_step, runner_for


def greedy(max_tokens: int, **wishes: object) -> SamplingParams:
    return SamplingParams(temperature=0.0, max_tokens=max_tokens, **wishes)  # type: ignore[arg-type]


def make_n(n: int, num_prompt_tokens: int, max_tokens: int = 3) -> list[Sequence]:
    params = SamplingParams(n=n, max_tokens=max_tokens)
    prompt = list(range(num_prompt_tokens))
    return [make_sequence(prompt, params, index=index) for index in range(n)]


def test_a_prompt_is_computed_in_chunks_of_the_budget() -> None:
    scheduler = make_scheduler(max_num_batched_tokens=8)
    sequence = make_sequence([1] * 20, greedy(1))
    scheduler.add(sequence, NOW)
    runner = runner_for(scheduler)
    while scheduler.has_work:
        one_step(scheduler, runner)
    chunks = [(item.start, item.num_tokens) for step in runner.steps for item in step.sequences]
    assert chunks == [(0, 8), (8, 8), (16, 4)]


def test_decodes_come_first_and_a_long_prompt_gets_the_rest() -> None:
    scheduler = make_scheduler(max_num_batched_tokens=8)
    runner = runner_for(scheduler)
    decoding = make_sequence([1, 2], greedy(20))
    scheduler.add(decoding, NOW)
    one_step(scheduler, runner)
    reading = make_sequence([3] * 20, greedy(1))
    scheduler.add(reading, NOW)
    one_step(scheduler, runner)
    one_step(scheduler, runner)
    items = [(item.sequence, item.num_tokens) for item in runner.steps[-1].sequences]
    assert items == [(decoding, 1), (reading, 7)]


def test_nobody_is_admitted_behind_a_prompt_that_fills_the_step() -> None:
    scheduler = make_scheduler(max_num_batched_tokens=8)
    runner = runner_for(scheduler)
    reading, small = make_sequence([3] * 30, greedy(1)), make_sequence([1, 2], greedy(20))
    for sequence in (reading, small):
        scheduler.add(sequence, NOW)
    for _ in range(3):
        one_step(scheduler, runner)
        assert small.state is SequenceState.WAITING
    one_step(scheduler, runner)
    items = [(item.sequence, item.num_tokens) for item in runner.steps[-1].sequences]
    assert items == [(reading, 6), (small, 2)]


def test_slots_bound_who_runs() -> None:
    scheduler = make_scheduler(max_num_seqs=2)
    for _ in range(3):
        scheduler.add(make_sequence([1, 2], greedy(4)), NOW)
    one_step(scheduler, runner_for(scheduler))
    assert (scheduler.num_running, scheduler.num_waiting) == (2, 1)


class CountingFcfs(Fcfs):
    """Counts how often it is asked for its head."""

    num_asked = 0

    def head(self, now: float) -> Ticket | None:
        CountingFcfs.num_asked += 1
        return super().head(now)


def test_a_step_does_not_look_through_the_waiting() -> None:
    CountingFcfs.num_asked = 0
    scheduler = Scheduler(make_scheduler(max_num_seqs=2).config, KvManager(64, 4), CountingFcfs)
    for _ in range(1000):
        scheduler.add(make_sequence([1, 2], greedy(4)), NOW)
    runner = runner_for(scheduler)
    one_step(scheduler, runner)
    assert CountingFcfs.num_asked == 2
    one_step(scheduler, runner)
    assert CountingFcfs.num_asked == 2
    assert scheduler.num_waiting == 998


def test_small_prompts_do_not_overtake_a_big_one_that_waits_for_pages() -> None:
    scheduler = make_scheduler(num_pages=8, page_tokens=4, max_num_batched_tokens=64)
    runner = runner_for(scheduler)
    running = make_sequence([1] * 16, greedy(6))
    big, small = make_sequence([2] * 24, greedy(1)), make_sequence([3], greedy(1))
    for sequence in (running, big, small):
        scheduler.add(sequence, NOW)
    order: list[Sequence] = []
    while scheduler.has_work:
        order.extend(one_step(scheduler, runner))
    assert order.index(big) <= order.index(small)
    assert small.num_preemptions == 0


def test_admission_leaves_a_free_page_for_each_running_sequence() -> None:
    scheduler = make_scheduler(num_pages=4, page_tokens=4)
    first, second = make_sequence([1] * 8, greedy(8)), make_sequence([2] * 8, greedy(8))
    scheduler.add(first, NOW)
    scheduler.add(second, NOW)
    one_step(scheduler, runner_for(scheduler))
    assert first.state is SequenceState.RUNNING
    assert second.state is SequenceState.WAITING


def test_the_sequence_admitted_last_is_preempted_and_waits_in_front() -> None:
    scheduler = make_scheduler(num_pages=6, page_tokens=2, max_num_seqs=2)
    runner = runner_for(scheduler)
    old, new = make_sequence([1] * 4, greedy(8)), make_sequence([2] * 3, greedy(8))
    late = make_sequence([3], greedy(1))
    for sequence in (old, new, late):
        scheduler.add(sequence, NOW)
    while new.num_preemptions == 0:
        one_step(scheduler, runner)
    assert new.state is SequenceState.PREEMPTED
    assert new.page_table == []
    assert new.num_computed_tokens == 0
    assert (old.num_preemptions, scheduler.num_preemptions) == (0, 1)
    while late.state is SequenceState.WAITING:
        one_step(scheduler, runner)
    assert new.state is not SequenceState.PREEMPTED


def test_a_victim_is_not_admitted_again_in_the_same_step() -> None:
    scheduler = make_scheduler(num_pages=6, page_tokens=2, max_num_seqs=3)
    runner = runner_for(scheduler)
    for letter in (1, 2, 3, 4):
        scheduler.add(make_sequence([letter] * 3, greedy(8)), NOW)
    while scheduler.has_work:
        before = scheduler.num_preemptions
        one_step(scheduler, runner)
        if scheduler.num_preemptions > before:
            assert all(item.start > 0 for item in runner.steps[-1].sequences)
    assert scheduler.num_preemptions > 0


def test_a_sequence_alone_can_fill_every_page_and_ends_by_length() -> None:
    scheduler = make_scheduler(num_pages=3, page_tokens=4)
    sequence = make_sequence([1, 2], greedy(100))
    scheduler.add(sequence, NOW)
    assert drain(scheduler) == {sequence: Finish("length")}
    assert sequence.num_tokens == 12


def test_what_can_never_run_does_not_fit() -> None:
    scheduler = make_scheduler(num_pages=2, page_tokens=4)
    assert scheduler.fits(make_sequence([1] * 7))
    assert not scheduler.fits(make_sequence([1] * 8))
    assert scheduler.fits(make_sequence([1] * 8, greedy(0)))
    assert not scheduler.fits(make_sequence([1] * 9, greedy(0)))


def test_no_wanted_tokens_means_the_prompt_is_computed_and_nothing_drawn() -> None:
    """A5: `max_tokens` 0."""
    scheduler = make_scheduler(max_num_batched_tokens=8, max_logit_rows=8)
    sequence = make_sequence([1] * 20, greedy(0, prompt_logprobs=1))
    scheduler.add(sequence, NOW)
    assert drain(scheduler) == {sequence: Finish("length")}
    assert sequence.num_output_tokens == 0


def test_prompt_logprobs_bypass_the_cache() -> None:
    scheduler = make_scheduler()
    scheduler.add(make_sequence([1] * 12, greedy(1)), NOW)
    drain(scheduler)
    asking, plain = make_sequence([1] * 12, greedy(1, prompt_logprobs=1)), make_sequence([1] * 12)
    scheduler.add(asking, NOW)
    scheduler.add(plain, NOW)
    drain(scheduler)
    assert (asking.num_cached_tokens, plain.num_cached_tokens) == (0, 8)


def test_what_a_victim_finds_of_its_own_is_no_cache_hit() -> None:
    scheduler = make_scheduler(num_pages=6, page_tokens=2, max_num_seqs=2)
    runner = runner_for(scheduler)
    old, new = make_sequence([1] * 4, greedy(4)), make_sequence([2] * 4, greedy(8))
    scheduler.add(old, NOW)
    scheduler.add(new, NOW)
    while new.num_preemptions == 0:
        one_step(scheduler, runner)
    while new.state is SequenceState.PREEMPTED:
        one_step(scheduler, runner)
    assert runner.steps[-1].sequences[-1].start == 4
    assert new.num_cached_tokens == 0
    stats = scheduler.kv.stats()
    assert (stats.prefix_queries, stats.prefix_hits) == (8, 0)


@pytest.mark.parametrize("caching", [True, False])
def test_siblings_wait_for_sequence_0_and_share_all_but_the_last_token(caching: bool) -> None:
    scheduler = make_scheduler(
        page_tokens=4, max_num_batched_tokens=8, enable_prefix_caching=caching
    )
    runner = runner_for(scheduler)
    sequences = make_n(3, num_prompt_tokens=14)
    other = make_sequence([9], greedy(1), request_id="other")
    for sequence in (*sequences, other):
        scheduler.add(sequence, NOW)
    one_step(scheduler, runner)
    assert [s.state for s in sequences[1:]] == [SequenceState.WAITING] * 2
    assert scheduler.waiting_by_reason() == {"sibling": 2, "step": 1}
    one_step(scheduler, runner)
    one_step(scheduler, runner)
    starts = {item.sequence.index: item.start for item in runner.steps[-1].sequences}
    assert starts == {0: 14, 1: 13, 2: 13}
    assert sequences[1].page_table[:3] == sequences[0].page_table[:3]
    assert len({s.page_table[3] for s in sequences}) == 3
    assert scheduler.kv.stats().num_copies == 2
    drain(scheduler)


@pytest.mark.parametrize("budget", [8, 16, 64, 512])
def test_a_beginning_that_many_share_is_computed_once(budget: int) -> None:
    scheduler = make_scheduler(num_pages=64, page_tokens=4, max_num_batched_tokens=budget)
    runner = runner_for(scheduler)
    prefix = list(range(20))
    sequences = [make_sequence([*prefix, 90 + i, 80 + i], greedy(3)) for i in range(6)]
    for sequence in sequences:
        scheduler.add(sequence, NOW)
    while scheduler.has_work:
        one_step(scheduler, runner)
    num_computed = sum(step.num_tokens for step in runner.steps)
    num_decoded = 6 * 2  # the first token of an answer comes with the prompt's last
    assert num_computed == len(prefix) + 6 * 2 + num_decoded


def test_whoever_computes_a_beginning_may_end_and_others_go_on() -> None:
    scheduler = make_scheduler(page_tokens=4, max_num_batched_tokens=64)
    first, second = (make_sequence([*range(9), i], greedy(3)) for i in (50, 60))
    for sequence in (first, second):
        scheduler.add(sequence, NOW)
    step = scheduler.schedule(NOW)
    assert [item.sequence for item in step.sequences] == [first]
    scheduler.finish(first)
    scheduler.kv.check_invariants()
    assert [item.sequence for item in scheduler.schedule(NOW).sequences] == [second]


def test_prompt_logprobs_wait_for_nobodys_pages() -> None:
    scheduler = make_scheduler(page_tokens=4, max_num_batched_tokens=64)
    first = make_sequence([*range(9), 50], greedy(3))
    second = make_sequence([*range(9), 60], greedy(3, prompt_logprobs=1))
    for sequence in (first, second):
        scheduler.add(sequence, NOW)
    assert len(scheduler.schedule(NOW).sequences) == 2


def test_siblings_do_not_hold_up_others_while_they_wait() -> None:
    scheduler = make_scheduler(page_tokens=4, max_num_batched_tokens=8)
    runner = runner_for(scheduler)
    for sequence in make_n(4, num_prompt_tokens=7):
        scheduler.add(sequence, NOW)
    other = make_sequence([9], greedy(1), request_id="other")
    scheduler.add(other, NOW)
    one_step(scheduler, runner)
    assert other.is_finished


def test_siblings_are_admitted_in_the_order_of_their_indices() -> None:
    scheduler = make_scheduler(max_num_seqs=1)
    sequences = make_n(4, num_prompt_tokens=5)
    for sequence in sequences:
        scheduler.add(sequence, NOW)
    assert list(drain(scheduler)) == sequences


def test_siblings_go_on_when_sequence_0_is_aborted() -> None:
    scheduler = make_scheduler()
    sequences = make_n(3, num_prompt_tokens=14)
    for sequence in sequences:
        scheduler.add(sequence, NOW)
    scheduler.finish(sequences[0])
    assert set(drain(scheduler)) == set(sequences[1:])


def test_siblings_that_come_when_sequence_0_has_ended_need_not_wait_for_it() -> None:
    scheduler = make_scheduler()
    first, *late = make_n(3, num_prompt_tokens=6)
    scheduler.add(first, NOW)
    drain(scheduler)
    for sequence in late:
        scheduler.add(sequence, NOW)
    assert set(drain(scheduler)) == set(late)


@pytest.mark.parametrize("when", ["waiting", "scheduled", "running", "preempted", "finished"])
def test_a_sequence_can_be_ended_in_every_state_twice(when: str) -> None:
    """L2: cancel while queued, exactly as it is scheduled, later, and twice."""
    scheduler = make_scheduler(num_pages=6, page_tokens=2, max_num_seqs=2)
    runner = runner_for(scheduler)
    old, victim = make_sequence([1] * 4, greedy(8)), make_sequence([2] * 3, greedy(8))
    scheduler.add(old, NOW)
    scheduler.add(victim, NOW)
    if when == "scheduled":
        step = scheduler.schedule(NOW)
        result = runner.run(step)
        scheduler.finish(victim)
        updates = scheduler.apply(step, result)
        assert [update.sequence for update in updates] == [old]
    elif when == "running":
        one_step(scheduler, runner)
    elif when == "preempted":
        while victim.state is not SequenceState.PREEMPTED:
            one_step(scheduler, runner)
    elif when == "finished":
        drain(scheduler)
    scheduler.finish(victim)
    scheduler.finish(victim)
    assert victim.is_finished
    assert victim.page_table == []
    drain(scheduler)
    assert old.num_output_tokens == 8


@pytest.mark.parametrize("name", ["max_num_batched_tokens", "max_logit_rows"])
def test_a_step_must_hold_a_full_house(name: str) -> None:
    sizes = {"max_num_batched_tokens": 8, "max_logit_rows": 8, name: 7}
    with pytest.raises(ConfigError, match=f"{name} is 7; at least max_num_seqs"):
        SchedulerConfig(
            max_num_seqs=8,
            max_model_len=100,
            max_num_batched_tokens=sizes["max_num_batched_tokens"],
            max_logit_rows=sizes["max_logit_rows"],
        )


def test_there_is_room_for_one_at_least() -> None:
    with pytest.raises(ConfigError, match="max_num_seqs is 0"):
        SchedulerConfig(
            max_num_seqs=0, max_model_len=100, max_num_batched_tokens=8, max_logit_rows=8
        )


def running(*sequences: Sequence) -> list[Sequence]:
    return [sequence for sequence in sequences if sequence.state is SequenceState.RUNNING]


def test_a_reserved_share_of_slots_is_left_to_the_high_class() -> None:
    scheduler = make_scheduler(max_num_seqs=4, reserve_high_priority=0.5)
    many = [make_sequence([i, i], greedy(8)) for i in range(4)]
    high = make_sequence([9, 9], greedy(8), priority=-1)
    for sequence in (*many, high):
        scheduler.add(sequence, NOW)
    one_step(scheduler, runner_for(scheduler))
    assert running(*many, high) == [many[0], many[1], high]
    assert scheduler.waiting_by_reason() == {"slots": 2}


def test_a_high_prompt_is_read_beside_a_long_one_of_others() -> None:
    scheduler = make_scheduler(max_num_batched_tokens=16, reserve_high_priority=0.5)
    long = make_sequence([1] * 60, greedy(1))
    high = make_sequence([9] * 6, greedy(1), priority=-1)
    scheduler.add(long, NOW)
    scheduler.add(high, NOW)
    runner = runner_for(scheduler)
    one_step(scheduler, runner)
    assert [item.num_tokens for item in runner.steps[-1].sequences] == [8, 6]
    assert high.is_finished


def test_a_share_that_leaves_nothing_to_others_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"reserve_high_priority is 0\.9"):
        make_scheduler(max_num_seqs=4, reserve_high_priority=0.9)


def test_what_is_not_finished_at_its_deadline_is_named_once_in_every_state() -> None:
    scheduler = make_scheduler(max_num_seqs=1)
    soon, late = NOW + 5, NOW + 50
    runs = make_sequence([1, 2], greedy(50), deadline=soon)
    waits = make_sequence([3, 4], greedy(50), deadline=soon)
    ends = make_sequence([5, 6], greedy(1), deadline=late)
    for sequence in (runs, waits, ends):
        scheduler.add(sequence, NOW)
    runner = runner_for(scheduler)
    one_step(scheduler, runner)
    assert scheduler.take_expired(soon - 1) == []
    assert scheduler.take_expired(soon) == [runs, waits]
    assert scheduler.take_expired(soon) == []
    for sequence in (runs, waits):
        scheduler.finish(sequence)
    drain(scheduler)
    assert all(waits is not item.sequence for step in runner.steps for item in step.sequences)
    assert scheduler.take_expired(late) == []
    assert scheduler.counters.num_expired == 2


@pytest.mark.parametrize("swap", [False, True])
def test_a_victim_comes_back_by_the_way_it_went(swap: bool) -> None:
    scheduler = make_scheduler(num_swap_slots=16, enable_prefix_caching=False)
    runner = runner_for(scheduler)
    sequence = make_sequence([1] * 9, greedy(4))
    scheduler.add(sequence, NOW)
    one_step(scheduler, runner)
    scheduler.preempt(sequence, swap=swap)
    one_step(scheduler, runner)
    (item,) = runner.steps[-1].sequences
    assert item.start == (9 if swap else 0)
    assert scheduler.counters.num_wasted_tokens == (0 if swap else 9)
    assert scheduler.counters.num_swap_preemptions == int(swap)
    drain(scheduler)


def test_who_fills_the_memory_pays_for_it_alone() -> None:
    """Fill and squeeze: a tenant whose answers grow to the limit does not push others out."""
    scheduler = make_scheduler(num_pages=40, page_tokens=2, max_num_seqs=8)
    runner = runner_for(scheduler)
    squeezers = [make_sequence([i] * 4, greedy(60), tenant="squeezer") for i in range(4)]
    quiet = [make_sequence([9, i] * 3, greedy(6), tenant="quiet") for i in range(4)]
    for pair in zip(squeezers, quiet, strict=True):
        for sequence in pair:
            scheduler.add(sequence, NOW)
    while scheduler.has_work:
        one_step(scheduler, runner)
    assert scheduler.num_preemptions > 0
    assert [sequence.num_preemptions for sequence in quiet] == [0] * 4


def test_cycles_of_preemption_and_return_die_out() -> None:
    """Each return doubles the pages that a sequence is promised: log2(32 pages) + 1 returns."""
    scheduler = make_scheduler(num_pages=40, page_tokens=2, max_num_seqs=8)
    sequences = [make_sequence([i, i, i], greedy(60)) for i in range(8)]
    for sequence in sequences:
        scheduler.add(sequence, NOW)
    drain(scheduler)
    assert scheduler.num_preemptions > 0
    assert max(sequence.num_preemptions for sequence in sequences) <= 6
