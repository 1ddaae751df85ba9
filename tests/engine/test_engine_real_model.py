"""The same answer alone or in any crowd, on a real model: ids, text and log probabilities, `==`."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from octavo.config.engine import EngineConfig
from octavo.core.request import EngineRequest
from octavo.core.sampling_params import SamplingParams
from octavo.core.schedule import ScheduledStep, StepResult
from octavo.core.structured_outputs import StructuredOutputs
from octavo.engine.engine import Engine
from octavo.engine.front import Front, make_front
from octavo.errors import InvalidRequest, TemplateError
from octavo.kv.kv_manager import KvManager
from octavo.runner.load import load_runner
from octavo.runner.runner import Runner
from octavo.scheduler.config import SchedulerConfig
from octavo.scheduler.scheduler import Scheduler
from octavo.weights.gguf import GGUFFile

pytestmark = pytest.mark.real_model

CONTEXT = 128
PROMPTS = ["The sea", "Once", "In 1969", "def f(x):", "Paris is", "Hello", "One two", "A cat"]

Answer = tuple[list[int], str, list[float]]


@pytest.fixture(scope="module")
def parts(smollm2_path: Path) -> tuple[Front, Runner]:
    config = EngineConfig(model=str(smollm2_path), max_model_len=CONTEXT, threads=1)
    with GGUFFile.open(smollm2_path) as file:
        front = make_front(file, config)
        stop_token_ids = front.tokenizer.stop_token_ids
        return front, load_runner(file, front.resolved.config, stop_token_ids)


def test_the_front_keeps_to_the_bounds_of_its_options(smollm2_path: Path) -> None:
    config = EngineConfig(model=str(smollm2_path), template_output_chars=0, max_schema_depth=1)
    with GGUFFile.open(smollm2_path) as file:
        inputs = make_front(file, config).inputs
    with pytest.raises(TemplateError, match="--template-output-chars"):
        inputs.encode_messages([{"role": "user", "content": "a"}])
    nested = StructuredOutputs(json='{"items": {}}')
    with pytest.raises(InvalidRequest, match="more than 1 schemas in each other"):
        inputs.completion("a", SamplingParams(structured_outputs=nested))


@pytest.fixture(scope="module")
def requests(parts: tuple[Front, Runner]) -> list[EngineRequest]:
    """Half of them greedy, half drawn; two with the same long beginning; one with n = 2."""
    beginning = "The quick brown fox jumps over the lazy dog, and so on and on. " * 2
    prompts = [*PROMPTS, beginning + "Then", beginning + "But"]
    return [
        parts[0].inputs.completion(
            prompt,
            SamplingParams(
                temperature=i % 2,
                seed=i,
                max_tokens=36,
                ignore_eos=True,
                logprobs=0,
                n=1 + (i == 9),
            ),
        )
        for i, prompt in enumerate(prompts)
    ]


@pytest.fixture(scope="module")
def alone(
    parts: tuple[Front, Runner], requests: list[EngineRequest]
) -> dict[tuple[str, int], Answer]:
    answers: dict[tuple[str, int], Answer] = {}
    for request in requests:
        answers |= answer(make_engine(parts, caching=False), [request])
    return answers


def make_engine(
    parts: tuple[Front, Runner],
    *,
    num_pages: int = 64,
    chunk: int = 128,
    caching: bool = True,
    max_num_seqs: int = 8,
) -> Engine:
    scheduler = make_scheduler(
        parts, num_pages=num_pages, chunk=chunk, caching=caching, max_num_seqs=max_num_seqs
    )
    return Engine(scheduler, parts[1], parts[0].tokenizer)


def make_scheduler(
    parts: tuple[Front, Runner], *, num_pages: int, chunk: int, caching: bool, max_num_seqs: int
) -> Scheduler:
    front, runner = parts
    limits = SchedulerConfig(
        max_num_seqs=min(max_num_seqs, chunk),
        max_num_batched_tokens=chunk,
        max_model_len=CONTEXT,
        max_logit_rows=runner.max_logit_rows,
        eos_token_ids=front.tokenizer.stop_token_ids,
    )
    kv = KvManager(num_pages, enable_prefix_caching=caching, num_swap_slots=runner.num_swap_slots)
    return Scheduler(limits, kv)


def answer(
    engine: Engine,
    requests: list[EngineRequest],
    between_steps: Callable[[], None] = lambda: None,
) -> dict[tuple[str, int], Answer]:
    said: dict[tuple[str, int], Answer] = {}
    for request in requests:
        engine.submit(request)
    while engine.has_work:
        for out in engine.step().outputs:
            ids, text, logprobs = said.get((out.request_id, out.index), ([], "", []))
            new = [entry.logprob for entry in out.logprobs or []]
            said[out.request_id, out.index] = (ids + out.token_ids, text + out.text, logprobs + new)
        between_steps()
    assert engine.stats().num_used_pages == 0
    return said


@pytest.mark.parametrize("chunk", [1, 7, 13, 64, 128])
def test_alone_equals_batched_and_chunked(
    chunk: int,
    parts: tuple[Front, Runner],
    requests: list[EngineRequest],
    alone: dict[tuple[str, int], Answer],
) -> None:
    """L10."""
    assert answer(make_engine(parts, chunk=chunk), requests) == alone


def test_64_greedy_prompts_one_by_one_and_then_all_at_once(parts: tuple[Front, Runner]) -> None:
    """L10, in another order each time."""
    params = SamplingParams(temperature=0.0, max_tokens=4, ignore_eos=True)
    requests = [
        parts[0].inputs.completion(f"{PROMPTS[i % 8]} {'and so ' * (i % 5)}{i}", params)
        for i in range(64)
    ]
    alone: dict[tuple[str, int], Answer] = {}
    for request in requests:
        alone |= answer(make_engine(parts, caching=False), [request])
    for seed in range(5):
        random.Random(seed).shuffle(requests)
        engine = make_engine(parts, num_pages=256, max_num_seqs=64)
        assert answer(engine, requests) == alone
        assert engine.stats().num_steps < 64


def test_one_thread_equals_two(
    smollm2_path: Path,
    parts: tuple[Front, Runner],
    requests: list[EngineRequest],
    alone: dict[tuple[str, int], Answer],
) -> None:
    with GGUFFile.open(smollm2_path) as file:
        config = replace(parts[0].resolved.config, threads=2)
        runner = load_runner(file, config, parts[0].tokenizer.stop_token_ids)
    assert answer(make_engine((parts[0], runner)), requests) == alone


def test_alone_equals_cached(
    parts: tuple[Front, Runner],
    requests: list[EngineRequest],
    alone: dict[tuple[str, int], Answer],
) -> None:
    engine = make_engine(parts)
    answer(engine, requests)
    hits = engine.stats().prefix_cache_hits
    assert answer(engine, requests) == alone
    assert engine.stats().prefix_cache_hits > hits


def test_alone_equals_preempted(
    parts: tuple[Front, Runner],
    requests: list[EngineRequest],
    alone: dict[tuple[str, int], Answer],
) -> None:
    """L3: pages for so few that the requests preempt each other."""
    engine = make_engine(parts, num_pages=8)
    assert answer(engine, requests) == alone
    assert engine.stats().num_preemptions > 0


class Disturber:
    """Computes as the runner does, and takes the pages of all that run after every third step."""

    def __init__(self, scheduler: Scheduler, runner: Runner, *, swap: bool) -> None:
        self._scheduler, self._runner, self._swap = scheduler, runner, swap
        self._num_steps = 0

    def run(self, step: ScheduledStep) -> StepResult:
        return self._runner.run(step)

    def disturb(self) -> None:
        self._num_steps += 1
        if self._num_steps % 3 == 0:
            for sequence in list(self._scheduler._running):
                self._scheduler.preempt(sequence, swap=self._swap)


@pytest.mark.parametrize("caching", [False, True])
@pytest.mark.parametrize("swap", [False, True])
def test_alone_equals_preempted_again_and_again(
    swap: bool,
    caching: bool,
    parts: tuple[Front, Runner],
    requests: list[EngineRequest],
    alone: dict[tuple[str, int], Answer],
) -> None:
    """Computed again, or swapped out and in; forks of a prompt among them."""
    scheduler = make_scheduler(parts, num_pages=64, chunk=128, caching=caching, max_num_seqs=8)
    runner = Disturber(scheduler, parts[1], swap=swap)
    engine = Engine(scheduler, runner, parts[0].tokenizer)
    assert answer(engine, requests, between_steps=runner.disturb) == alone
    stats = engine.stats()
    assert stats.num_preemptions > 20
    assert (stats.num_swapped_in_pages > 20) == swap
