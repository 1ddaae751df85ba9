"""Whatever comes and goes in whatever order: budgets hold, all end once, answers are equal."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from octavo.core.sampling_params import SamplingParams
from octavo.core.schedule import ScheduledStep
from octavo.core.sequence import Sequence
from tests.fakes import FakeRunner, make_scheduler, make_sequence
from tests.scheduler.drive import checked_step, drain, runner_for

PAGE = 2
PROMPTS = st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=14), min_size=1, max_size=8)


def answers(
    prompts: list[list[int]],
    *,
    max_tokens: int,
    num_pages: int,
    max_num_batched_tokens: int = 64,
    max_num_seqs: int = 8,
    enable_prefix_caching: bool = True,
    temperature: float = 0.0,
) -> tuple[list[list[int]], int]:
    """The answers to all prompts, sent at once, and how many preemptions it took."""
    scheduler = make_scheduler(
        num_pages=num_pages,
        page_tokens=PAGE,
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=max_num_batched_tokens,
        enable_prefix_caching=enable_prefix_caching,
    )
    params = SamplingParams(temperature=temperature, max_tokens=max_tokens)
    sequences = [make_sequence(p, params, request_id=str(i)) for i, p in enumerate(prompts)]
    for seed, sequence in enumerate(sequences):
        sequence.seed = seed
        scheduler.add(sequence)
    drain(scheduler)
    return [s.token_ids[s.num_prompt_tokens :] for s in sequences], scheduler.num_preemptions


@settings(max_examples=60, deadline=None)
@given(
    prompts=PROMPTS,
    num_pages=st.integers(12, 40),
    chunk=st.sampled_from([8, 9, 16, 64]),
    caching=st.booleans(),
    temperature=st.sampled_from([0.0, 1.0]),
)
def test_pages_chunks_and_caching_never_change_an_answer(
    prompts: list[list[int]], num_pages: int, chunk: int, caching: bool, temperature: float
) -> None:
    calm, num_preemptions = answers(
        prompts, max_tokens=8, num_pages=400, enable_prefix_caching=False, temperature=temperature
    )
    assert num_preemptions == 0
    pressed, _ = answers(
        prompts,
        max_tokens=8,
        num_pages=num_pages,
        max_num_batched_tokens=chunk,
        enable_prefix_caching=caching,
        temperature=temperature,
    )
    assert pressed == calm


def test_eight_requests_that_preempt_each_other_answer_as_if_alone() -> None:
    """L3."""
    prompts = [[i, i + 1, i % 3] for i in range(8)]
    alone = [answers([p], max_tokens=20, num_pages=400)[0][0] for p in prompts]
    pressed, num_preemptions = answers(prompts, max_tokens=20, num_pages=13)
    assert pressed == alone
    assert num_preemptions > 5


class SchedulerMachine(RuleBasedStateMachine):
    """Arrivals, steps, and ends at any moment, also between a step and its booking."""

    sequences = Bundle("sequences")

    @initialize(
        num_pages=st.integers(6, 16),
        max_num_seqs=st.integers(1, 4),
        chunk=st.integers(4, 12),
        caching=st.booleans(),
    )
    def make(self, num_pages: int, max_num_seqs: int, chunk: int, caching: bool) -> None:
        self.scheduler = make_scheduler(
            num_pages=num_pages,
            page_tokens=PAGE,
            max_num_seqs=max_num_seqs,
            max_num_batched_tokens=chunk,
            enable_prefix_caching=caching,
        )
        self.runner: FakeRunner = runner_for(self.scheduler)
        self.step: ScheduledStep | None = None
        self.known: list[Sequence] = []
        self.ended: set[Sequence] = set()
        self.num_requests = 0

    @rule(
        target=sequences,
        prompt=st.lists(st.integers(0, 1), min_size=1, max_size=10),
        max_tokens=st.integers(0, 8),
        n=st.integers(1, 3),
        wants_logprobs=st.booleans(),
        data=st.data(),
    )
    def arrive(
        self,
        prompt: list[int],
        max_tokens: int,
        n: int,
        wants_logprobs: bool,
        data: st.DataObject,
    ) -> Sequence:
        params = SamplingParams(
            n=n, max_tokens=max_tokens, prompt_logprobs=1 if wants_logprobs else None
        )
        self.num_requests += 1
        name = str(self.num_requests)
        new = [make_sequence(prompt, params, request_id=name, index=i) for i in range(n)]
        for sequence in new:
            self.scheduler.add(sequence)
        self.known.extend(new)
        return data.draw(st.sampled_from(new))

    @rule()
    def schedule_and_run(self) -> None:
        if self.step is None:
            self.step = checked_step(self.scheduler)
            self.result = self.runner.run(self.step)
            assert bool(self.step.sequences) == self.scheduler.has_work

    @rule()
    def apply(self) -> None:
        if self.step is None:
            return
        for update in self.scheduler.apply(self.step, self.result):
            assert update.sequence not in self.ended
            if update.finish is not None:
                self.ended.add(update.sequence)
        self.step = None

    @rule(sequence=sequences)
    def abort(self, sequence: Sequence) -> None:
        self.scheduler.finish(sequence)
        self.ended.add(sequence)
        assert sequence.page_table == []

    @invariant()
    def books_agree(self) -> None:
        self.scheduler.kv.check_invariants()
        live = [sequence for sequence in self.known if sequence not in self.ended]
        assert self.scheduler.num_running + self.scheduler.num_waiting == len(live)
        assert all(sequence.is_finished == (sequence in self.ended) for sequence in self.known)

    def teardown(self) -> None:
        if not hasattr(self, "scheduler"):
            return
        self.apply()
        for sequence in drain(self.scheduler):
            assert sequence not in self.ended
            self.ended.add(sequence)
        assert self.ended == set(self.known)


TestSchedulerMachine = SchedulerMachine.TestCase
TestSchedulerMachine.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
