"""A scheduler, its pages, a context-hash model and a clock, to which anything may happen.

Every operation checks what must hold of any step and of all books; `settle` lets everything end.
"""

from __future__ import annotations

from random import Random

from octavo.core.sampling_params import SamplingParams
from octavo.core.schedule import ScheduledStep
from octavo.core.sequence import Sequence, SequenceState
from tests.fakes import NOW, make_scheduler, make_sequence
from tests.scheduler.drive import checked_step, drain, runner_for

PAGE = 2
TENANTS = ("", "a", "b")


class World:
    """Small numbers everywhere, so that everything meets everything."""

    def __init__(self, random: Random) -> None:
        chunk = random.randint(4, 12)
        max_num_seqs = random.randint(1, 4)
        windows = random.choice(((0,), (0,), (0, 3), (0, 7, 2), (5,)))
        self.random = random
        self.scheduler = make_scheduler(
            num_pages=random.randint(6, 16) * len(windows),
            windows=windows,
            page_tokens=PAGE,
            max_num_seqs=max_num_seqs,
            max_num_batched_tokens=chunk,
            enable_prefix_caching=random.random() < 0.7,
            num_swap_slots=random.choice((0, 4, 24)),
            reserve_high_priority=random.choice((0.0, 0.3)) if max_num_seqs > 1 else 0.0,
            max_step_seconds=random.choice((None, 0.004)),
        )
        self.runner = runner_for(self.scheduler)
        self.now = NOW
        self.step: ScheduledStep | None = None
        self.live: list[Sequence] = []
        self.num_requests = 0
        self.num_operations = 0
        self.answers: list[Sequence] = []
        """Sequences that came to their own end."""

    def operate(self, times: int = 1) -> None:
        """Do one thing or another, so often."""
        operations = (
            *[self.compute] * 8,
            *[self.arrive] * 3,
            *[self.abort, self.preempt, self.pass_time, self.reset_cache],
        )
        for _ in range(times):
            self.random.choice(operations)()
            self.num_operations += 1
            self.check()

    def arrive(self) -> None:
        if len(self.live) > 12:
            return
        random = self.random
        n = random.choice((1, 1, 1, 2, 3))
        params = SamplingParams(
            n=n,
            max_tokens=random.randint(0, 8),
            prompt_logprobs=1 if random.random() < 0.1 else None,
        )
        prompt = [random.randint(0, 1) for _ in range(random.randint(1, 10))]
        self.num_requests += 1
        for index in range(n):
            sequence = make_sequence(
                prompt,
                params,
                request_id=str(self.num_requests),
                index=index,
                tenant=random.choice(TENANTS),
                priority=random.choice((-1, 0, 0, 1)),
                deadline=random.choice((None, None, self.now + random.randint(1, 20))),
            )
            self.scheduler.add(sequence, self.now)
            self.live.append(sequence)

    def compute(self) -> None:
        """Schedule and run, or book what ran: other things may happen in between."""
        if self.step is None:
            self.step = checked_step(self.scheduler, self.now)
            self.result = self.runner.run(self.step)
            assert bool(self.step.sequences) == self.scheduler.has_work, "work, and an empty step"
            return
        for update in self.scheduler.apply(self.step, self.result):
            if update.finish is not None:
                self.live.remove(update.sequence)
                self.answers.append(update.sequence)
        self.scheduler.observe(self.step, self.random.uniform(0.001, 0.01))
        self.step = None

    def abort(self) -> None:
        if self.live:
            self._end(self.random.choice(self.live))

    def preempt(self) -> None:
        """Only between steps, as the scheduler itself does."""
        running = [s for s in self.live if s.state is SequenceState.RUNNING]
        if running and self.step is None:
            victim = self.random.choice(running)
            self.scheduler.preempt(victim, swap=self.random.random() < 0.5)
            assert victim.page_table == []

    def pass_time(self) -> None:
        self.now += self.random.randint(1, 5)
        for sequence in self.scheduler.take_expired(self.now):
            self._end(sequence)

    def reset_cache(self) -> None:
        self.scheduler.kv.reset_prefix_cache()

    def check(self) -> None:
        scheduler = self.scheduler
        scheduler.kv.check_invariants()
        assert scheduler.num_running + scheduler.num_waiting == len(self.live)
        assert sum(scheduler.waiting_by_reason().values()) == scheduler.num_waiting
        assert not any(sequence.is_finished for sequence in self.live)
        assert len(scheduler._grants.promises._open) == scheduler.num_running

    def settle(self) -> None:
        """Everything that lives comes to an end, and nothing is held then."""
        if self.step is not None:
            self.compute()
        ended = drain(self.scheduler, runner=self.runner)
        assert set(ended) == set(self.live)
        self.answers.extend(ended)
        scheduler = self.scheduler
        assert scheduler.kv.stats().num_swapped_pages == 0
        promises, siblings = scheduler._grants.promises, scheduler._siblings
        assert (promises.num_pages, promises.num_pages_to_keep) == (0, 0)
        kept = (siblings._leaders, siblings._followers, scheduler._facts._weights)
        assert not any(kept), "something is kept of sequences that have ended"

    def expect_true_answers(self) -> None:
        """Every token that was drawn is what the model says of exactly the tokens before it."""
        for sequence in self.answers:
            for position in range(sequence.num_prompt_tokens, sequence.num_tokens):
                context = sequence.token_ids[:position]
                expected = self.runner.hash_token(self.runner.seen(context), sequence.seed)
                assert sequence.token_ids[position] == expected, f"{sequence.key} was disturbed"

    def _end(self, sequence: Sequence) -> None:
        self.scheduler.finish(sequence)
        self.live.remove(sequence)
        assert sequence.page_table == []
