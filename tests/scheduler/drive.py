"""Runs a scheduler on the context-hash model until nothing is left, checking every step."""

from __future__ import annotations

from octavo.core.schedule import ScheduledSequence, ScheduledStep
from octavo.core.sequence import Sequence
from octavo.scheduler.scheduler import Scheduler
from octavo.scheduler.stopping import Finish
from tests.fakes import NOW, FakeRunner


def runner_for(scheduler: Scheduler) -> FakeRunner:
    kv = scheduler.kv
    return FakeRunner(kv.num_pages, kv.page_tokens, groups=kv.groups)


def checked_step(scheduler: Scheduler, now: float = NOW) -> ScheduledStep:
    """Schedule a step, and check what must hold of any step."""
    running = set(scheduler._running)
    step = scheduler.schedule(now)
    config = scheduler.config
    assert step.num_tokens == sum(item.num_tokens for item in step.sequences)
    assert step.num_tokens <= config.max_num_batched_tokens
    num_rows = sum(
        item.num_tokens if item.wants_prompt_logprobs else int(item.samples)
        for item in step.sequences
    )
    assert num_rows <= config.max_logit_rows
    assert len({item.sequence for item in step.sequences}) == len(step.sequences)
    assert scheduler.num_running <= config.max_num_seqs
    order = [_rank(item, running) for item in step.sequences]
    assert order == sorted(order), "not: running decodes, running prompts, newcomers"
    for item in step.sequences:
        assert item.num_tokens >= 1
        assert item.start == item.sequence.num_computed_tokens
        end = item.start + item.num_tokens
        assert end <= item.sequence.num_tokens
        num_stripes = len(item.sequence.page_table) // scheduler.kv.groups.num
        assert end <= num_stripes * scheduler.kv.page_tokens
    scheduler.kv.check_invariants()
    return step


def _rank(item: ScheduledSequence, running: set[Sequence]) -> int:
    if item.sequence not in running:
        return 2
    return 0 if item.sequence.num_tokens - item.start == 1 else 1


def one_step(scheduler: Scheduler, runner: FakeRunner) -> dict[Sequence, Finish]:
    """Schedule, check, run, apply. Returns the sequences that finished, and why."""
    step = checked_step(scheduler)
    assert step.sequences, "there is work, and nothing is scheduled"
    updates = scheduler.apply(step, runner.run(step))
    scheduler.kv.check_invariants()
    return {update.sequence: update.finish for update in updates if update.finish is not None}


def drain(
    scheduler: Scheduler, max_steps: int = 5000, runner: FakeRunner | None = None
) -> dict[Sequence, Finish]:
    """Run until no work is left. Every sequence must end once, and hold nothing then.

    `runner` is the one that ran before, if any."""
    runner = runner or runner_for(scheduler)
    ended: dict[Sequence, Finish] = {}
    for _ in range(max_steps):
        if not scheduler.has_work:
            break
        for sequence, finish in one_step(scheduler, runner).items():
            assert sequence not in ended, "a sequence ended twice"
            ended[sequence] = finish
    assert not scheduler.has_work, "no end in sight"
    assert scheduler.kv.stats().num_used_pages == 0
    return ended
