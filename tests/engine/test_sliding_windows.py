"""Windows give pages back, and nobody can tell by the answers: tiny gemma-3 models, `==`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch

from octavo.config.engine import EngineConfig
from octavo.core.request import EngineRequest
from octavo.core.sampling_params import SamplingParams
from octavo.engine.engine import Engine
from octavo.engine.prefix_store import PrefixStore
from octavo.kernels._native import isa_levels
from octavo.kv.kv_manager import KvManager
from octavo.runner.load import load_runner
from octavo.runner.runner import Runner
from octavo.scheduler.config import SchedulerConfig
from octavo.scheduler.scheduler import Scheduler
from octavo.weights.gguf import GGUFFile
from tests.models.tiny import PLAIN, VOCABULARY, TinyModel, write_tiny

CONFIG = EngineConfig(
    max_model_len=400,
    max_num_seqs=8,
    max_num_batched_tokens=64,
    kv_cache_memory=32 << 20,
    kv_cache_dtype="float32",
    swap_space=4 << 20,
    threads=2,
    isa=isa_levels()[0],
    prefix_cache_dir="given",
)
WINDOW = 20
RNG = np.random.default_rng(3)
PROMPTS: list[list[int]] = [RNG.integers(0, VOCABULARY, n).tolist() for n in (150, 5, 19, 97)]
PROMPTS.append([*PROMPTS[0][:130], *PROMPTS[3]])
Answers = dict[tuple[str, int], list[int]]


@pytest.fixture(scope="module", params=["gemma3", "gemma3-everything"])
def tiny(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> TinyModel:
    return write_tiny(request.param, tmp_path_factory.mktemp("windows"), PLAIN)


@pytest.fixture(scope="module")
def runner(tiny: TinyModel) -> Runner:
    with GGUFFile.open(tiny.path) as file:
        return load_runner(file, CONFIG, frozenset())


@pytest.fixture(scope="module")
def alone(runner: Runner) -> Answers:
    answers: Answers = {}
    for request in requests():
        answers |= answers_of(make_engine(runner, caching=False), [request])
    return answers


def make_engine(
    runner: Runner,
    *,
    num_pages: int | None = None,
    chunk: int = 64,
    caching: bool = True,
    store: Callable[[KvManager], PrefixStore] | None = None,
) -> Engine:
    kv = KvManager(
        num_pages or runner.num_pages,
        enable_prefix_caching=caching,
        groups=runner.groups,
        num_swap_slots=runner.num_swap_slots,
    )
    limits = SchedulerConfig(
        max_num_seqs=8, max_num_batched_tokens=chunk, max_model_len=400, max_logit_rows=64
    )
    prefix_store = store(kv) if store is not None else None
    return Engine(Scheduler(limits, kv), runner, None, prefix_store=prefix_store)


def requests() -> list[EngineRequest]:
    """Prompts shorter and much longer than the window, and answers that leave it behind; one of
    them three times, drawn."""
    greedy = SamplingParams(temperature=0.0, max_tokens=60, ignore_eos=True)
    drawn = SamplingParams(temperature=1.0, seed=5, max_tokens=60, n=3, ignore_eos=True)
    return [
        EngineRequest(
            request_id=str(number),
            prompt_token_ids=prompt,
            sampling_params=drawn if number == 3 else greedy,
            arrival_time=0.0,
        )
        for number, prompt in enumerate(PROMPTS)
    ]


def answers_of(
    engine: Engine, wanted: Iterable[EngineRequest], between_steps: Callable[[int], object] = id
) -> Answers:
    said: Answers = {}
    for request in wanted:
        engine.submit(request)
    number = 0
    while engine.has_work:
        for output in engine.step().outputs:
            said.setdefault((output.request_id, output.index), []).extend(output.token_ids)
        engine._scheduler.kv.check_invariants()
        number += 1
        between_steps(number)
    assert engine.stats().num_used_pages == 0
    return said


def test_layers_with_windows_have_pages_of_their_own(runner: Runner) -> None:
    assert runner.groups.windows[0] == 0
    assert set(runner.groups.windows[1:]) == {WINDOW}


def test_answers_beyond_the_window_are_those_of_transformers(
    tiny: TinyModel, alone: Answers
) -> None:
    for number in (0, 1, 4):
        prompt = torch.tensor([PROMPTS[number]])
        with torch.no_grad():
            found = tiny.hf.generate(
                prompt,
                attention_mask=torch.ones_like(prompt),
                max_new_tokens=60,
                min_new_tokens=60,
                do_sample=False,
                eos_token_id=None,
                pad_token_id=0,
            )
        assert alone[str(number), 0] == found[0, prompt.shape[1] :].tolist()


@pytest.mark.parametrize("chunk", [8, 33, 64])
@pytest.mark.parametrize("caching", [True, False])
def test_chunks_crowds_and_caches_change_nothing(
    runner: Runner, alone: Answers, chunk: int, caching: bool
) -> None:
    engine = make_engine(runner, chunk=chunk, caching=caching)
    assert answers_of(engine, requests()) == alone
    assert answers_of(engine, requests()) == alone
    hits = engine.stats().prefix_cache_hits
    assert (hits > 2 * 130) == caching


@pytest.mark.parametrize("swap", [True, False])
def test_preemption_changes_nothing(runner: Runner, alone: Answers, swap: bool) -> None:
    engine = make_engine(runner)
    scheduler = engine._scheduler

    def disturb(number: int) -> None:
        if number % 5 == 0 and scheduler._running:
            victim = list(scheduler._running)[number % len(scheduler._running)]
            scheduler.preempt(victim, swap=swap)

    assert answers_of(engine, requests(), disturb) == alone
    assert scheduler.counters.num_preemptions > 10
    assert (scheduler.counters.num_swap_preemptions > 10) == swap


def test_requests_that_have_not_room_together_change_nothing(
    runner: Runner, alone: Answers
) -> None:
    num_pages = runner.groups.num_pages(runner.groups.num_stripes(300))
    engine = make_engine(runner, num_pages=num_pages)
    assert answers_of(engine, requests()) == alone
    assert engine.stats().num_preemptions > 0


def test_a_cache_that_was_saved_changes_nothing(
    runner: Runner, alone: Answers, tmp_path: Path
) -> None:
    def store(kv: KvManager) -> PrefixStore:
        return PrefixStore(tmp_path / "prefixes", 1 << 24, kv, runner.pages)

    first = make_engine(runner, store=store)
    assert answers_of(first, requests()) == alone
    first.close()
    second = make_engine(runner, store=store)
    assert second._prefix_store is not None
    assert second._prefix_store.load() > 0
    assert answers_of(second, requests()) == alone
    assert second.stats().prefix_cache_hits >= 144 + 96 + 128


def test_a_long_answer_holds_its_window_and_no_more(runner: Runner) -> None:
    engine = make_engine(runner, caching=False)
    params = msgspec.structs.replace(requests()[0].sampling_params, max_tokens=240)
    request = msgspec.structs.replace(requests()[0], sampling_params=params)
    groups = runner.groups
    window_pages = -(-WINDOW // 16) + 3
    most = 0

    def look(_: int) -> None:
        nonlocal most
        (sequence,) = engine._scheduler._running or (None,)
        if sequence is not None and sequence.num_output_tokens > 0:
            num_stripes = groups.num_stripes(sequence.num_tokens)
            num_full = groups.windowed.start * num_stripes
            assert sequence.num_pages <= num_full + len(groups.windowed) * window_pages
            most = max(most, num_stripes)

    answers_of(engine, [request], look)
    assert most > 20


def test_a_context_within_the_window_is_one_group(tiny: TinyModel) -> None:
    with GGUFFile.open(tiny.path) as file:
        short = load_runner(file, replace(CONFIG, max_model_len=WINDOW), frozenset())
    assert short.groups.windows == (0,)
