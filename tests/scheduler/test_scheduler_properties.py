"""Whatever comes and goes in whatever order: budgets hold, all end once, answers are equal."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from octavo.core.sampling_params import SamplingParams
from tests.fakes import NOW, make_scheduler, make_sequence
from tests.scheduler.drive import drain
from tests.scheduler.world import World

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
    windows: tuple[int, ...] = (0,),
) -> tuple[list[list[int]], int]:
    """The answers to all prompts, sent at once, and how many preemptions it took."""
    scheduler = make_scheduler(
        num_pages=num_pages,
        page_tokens=PAGE,
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=max_num_batched_tokens,
        enable_prefix_caching=enable_prefix_caching,
        windows=windows,
    )
    params = SamplingParams(temperature=temperature, max_tokens=max_tokens)
    sequences = [make_sequence(p, params, request_id=str(i)) for i, p in enumerate(prompts)]
    for seed, sequence in enumerate(sequences):
        sequence.seed = seed
        scheduler.add(sequence, NOW)
    drain(scheduler)
    return [s.token_ids[s.num_prompt_tokens :] for s in sequences], scheduler.num_preemptions


@settings(max_examples=60, deadline=None)
@given(
    prompts=PROMPTS,
    num_pages=st.integers(12, 40),
    chunk=st.sampled_from([8, 9, 16, 64]),
    caching=st.booleans(),
    temperature=st.sampled_from([0.0, 1.0]),
    windows=st.sampled_from([(0,), (0, 3), (0, 6, 2)]),
)
def test_pages_chunks_and_caching_never_change_an_answer(
    prompts: list[list[int]],
    num_pages: int,
    chunk: int,
    caching: bool,
    temperature: float,
    windows: tuple[int, ...],
) -> None:
    calm, num_preemptions = answers(
        prompts, max_tokens=8, num_pages=400, enable_prefix_caching=False, temperature=temperature
    )
    assert num_preemptions == 0
    pressed, _ = answers(
        prompts,
        max_tokens=8,
        num_pages=num_pages * len(windows),
        max_num_batched_tokens=chunk,
        enable_prefix_caching=caching,
        temperature=temperature,
        windows=windows,
    )
    assert pressed == calm


def test_eight_requests_that_preempt_each_other_answer_as_if_alone() -> None:
    """L3."""
    prompts = [[i, i + 1, i % 3] for i in range(8)]
    alone = [answers([p], max_tokens=20, num_pages=400)[0][0] for p in prompts]
    pressed, num_preemptions = answers(prompts, max_tokens=20, num_pages=13)
    assert pressed == alone
    assert num_preemptions > 5


IS_LONG = settings().max_examples > 100  # --hypothesis-profile=octavo-long: 2 million operations
OPERATIONS_PER_BURST = 100


class SchedulerMachine(RuleBasedStateMachine):
    """Whatever happens in whatever order: see `world`. Hypothesis finds the shortest order that
    breaks something; most operations come in bursts, for they cost it less than rules."""

    @initialize(random=st.randoms(use_true_random=False))
    def make(self, random: Random) -> None:
        self.world = World(random)

    @rule()
    def arrive(self) -> None:
        self.world.arrive()

    @rule()
    def compute(self) -> None:
        self.world.compute()

    @rule()
    def abort(self) -> None:
        self.world.abort()

    @rule()
    def preempt(self) -> None:
        self.world.preempt()

    @rule()
    def pass_time(self) -> None:
        self.world.pass_time()

    @rule()
    def reset_cache(self) -> None:
        self.world.reset_cache()

    @rule(seed=st.integers(0, 2**32))
    def do_this_and_that(self, seed: int) -> None:
        self.world.random = Random(seed)
        self.world.operate(OPERATIONS_PER_BURST)

    @invariant()
    def books_agree(self) -> None:
        if hasattr(self, "world"):
            self.world.check()

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.settle()
            self.world.expect_true_answers()


TestSchedulerMachine = SchedulerMachine.TestCase
TestSchedulerMachine.settings = settings(
    max_examples=4500 if IS_LONG else 450, stateful_step_count=30, deadline=None
)
