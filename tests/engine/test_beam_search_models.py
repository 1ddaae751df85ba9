"""Beam search through engine, pages and native code: the beams of transformers."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from msgspec.structs import replace
from transformers import PreTrainedModel

from octavo.config.engine import EngineConfig
from octavo.core.outputs import SequenceOutput
from octavo.core.request import EngineRequest
from octavo.core.sampling_params import SamplingParams
from octavo.engine.engine import Engine
from octavo.kernels._native import isa_levels
from octavo.kv.kv_manager import KvManager
from octavo.runner.load import load_runner
from octavo.scheduler.config import SchedulerConfig
from octavo.scheduler.scheduler import Scheduler
from octavo.tokenization.tokenizer import Tokenizer
from octavo.weights.gguf import GGUFFile
from tests.models.oracle import smollm2_oracle
from tests.models.tiny import PLAIN, VOCABULARY, TinyModel, write_tiny

NUM_STRIPES = 64
CONFIG = EngineConfig(
    max_model_len=256,
    max_num_seqs=8,
    max_num_batched_tokens=48,
    kv_cache_memory=64 << 20,
    kv_cache_dtype="float32",
    swap_space=16 << 20,
    threads=2,
    isa=isa_levels()[0],
)
EOS = frozenset(range(4, VOCABULARY, 17))
PROMPT = np.random.default_rng(8).integers(0, VOCABULARY, 37).tolist()
BEAMS = SamplingParams(use_beam_search=True, n=4, max_tokens=24)


class Searcher:
    """An engine on one model file."""

    def __init__(
        self,
        path: Path,
        eos_token_ids: frozenset[int],
        config: EngineConfig = CONFIG,
        *,
        num_stripes: int = NUM_STRIPES,
        enable_prefix_caching: bool = True,
    ) -> None:
        with GGUFFile.open(path) as file:
            runner = load_runner(file, config, eos_token_ids)
        limits = SchedulerConfig(
            max_num_seqs=config.max_num_seqs,
            max_num_batched_tokens=config.max_num_batched_tokens,
            max_model_len=runner.max_model_len,
            max_logit_rows=runner.max_logit_rows,
            eos_token_ids=eos_token_ids,
        )
        kv = KvManager(
            num_stripes * runner.groups.num,
            enable_prefix_caching=enable_prefix_caching,
            groups=runner.groups,
            num_swap_slots=runner.num_swap_slots,
        )
        self.scheduler = Scheduler(limits, kv)
        self.engine = Engine(self.scheduler, runner, None)
        self._num_requests = 0

    def search(
        self,
        prompt: list[int],
        params: SamplingParams,
        *,
        preempt_every: int = 0,
        swap: bool = False,
    ) -> list[SequenceOutput]:
        """The answers. Every so many steps somebody who runs loses the pages."""
        self._num_requests += 1
        request_id = str(self._num_requests)
        self.engine.submit(
            EngineRequest(
                request_id=request_id,
                prompt_token_ids=prompt,
                sampling_params=params,
                arrival_time=0.0,
            )
        )
        said = []
        for number in range(1, 500):
            said += self.engine.step().outputs
            if not self.engine.has_work:
                return said
            if preempt_every and number % preempt_every == 0 and self.scheduler.num_running:
                self.scheduler.preempt(next(iter(self.scheduler._running)), swap=swap)
        raise AssertionError("no end in sight")


def transformers_search(
    hf: PreTrainedModel, prompt: list[int], params: SamplingParams, eos: frozenset[int]
) -> tuple[list[list[int]], list[float]]:
    """Ids of the answers without padding, and their scores."""
    pad = max(eos, default=0)
    with torch.no_grad():
        found = hf.generate(
            torch.tensor([prompt]),
            attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
            num_beams=params.num_beams,
            num_return_sequences=params.n,
            max_new_tokens=params.max_tokens,
            min_new_tokens=params.min_tokens or None,
            length_penalty=params.length_penalty,
            early_stopping=params.early_stopping,
            repetition_penalty=params.repetition_penalty,
            eos_token_id=sorted(eos) or None,
            pad_token_id=pad,
            do_sample=False,
            return_dict_in_generate=True,
            output_scores=True,
        )
    answers = [_without_padding(ids, eos) for ids in found.sequences[:, len(prompt) :].tolist()]
    return answers, found.sequences_scores.tolist()


def _without_padding(ids: list[int], eos: frozenset[int]) -> list[int]:
    ends = [position for position, token_id in enumerate(ids) if token_id in eos]
    return ids[: ends[0] + 1] if ends else ids


def expect_transformers_beams(
    searcher: Searcher,
    hf: PreTrainedModel,
    prompt: list[int],
    params: SamplingParams,
    eos: frozenset[int],
    tolerance: float = 1e-5,
) -> None:
    answers, scores = transformers_search(hf, prompt, params, eos)
    said = searcher.search(prompt, params)
    assert [output.token_ids for output in said] == answers
    for output, score in zip(said, scores, strict=True):
        assert output.cumulative_logprob is not None
        length = len(output.token_ids) ** params.length_penalty
        assert output.cumulative_logprob / length == pytest.approx(score, rel=tolerance)


@pytest.fixture(scope="module", autouse=True)
def _one_torch_thread() -> Iterator[None]:
    """Small tensors on many threads are slower."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module", params=["llama", "qwen2", "gemma3"])
def tiny(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> TinyModel:
    return write_tiny(request.param, tmp_path_factory.mktemp("beams"), PLAIN)


@pytest.mark.parametrize(
    "params",
    [
        BEAMS,
        replace(BEAMS, n=2, beam_width=7, length_penalty=2.0, early_stopping="never"),
        replace(BEAMS, length_penalty=-1.0, early_stopping=True),
        replace(BEAMS, repetition_penalty=1.6, min_tokens=9),
    ],
)
def test_beams_of_tiny_models_are_those_of_transformers(
    tiny: TinyModel, params: SamplingParams
) -> None:
    expect_transformers_beams(Searcher(tiny.path, EOS), tiny.hf, PROMPT, params, EOS)


@pytest.mark.parametrize("enable_prefix_caching", [True, False])
@pytest.mark.parametrize("swap", [True, False])
@pytest.mark.parametrize("every", [5, 8])
def test_preemption_changes_nothing(
    tiny: TinyModel, every: int, swap: bool, enable_prefix_caching: bool
) -> None:
    """Bit for bit."""
    calm = Searcher(tiny.path, EOS).search(PROMPT, BEAMS)
    searcher = Searcher(tiny.path, EOS, enable_prefix_caching=enable_prefix_caching)
    disturbed = searcher.search(PROMPT, BEAMS, preempt_every=every, swap=swap)
    assert _facts(disturbed) == _facts(calm)
    counters = searcher.scheduler.counters
    assert counters.num_preemptions >= 3
    assert counters.num_swap_preemptions == swap * counters.num_preemptions


def test_scarce_pages_change_nothing(tiny: TinyModel) -> None:
    """Two searches that have not room together: 2 full pages of the prompt, and 2 for each beam."""
    calm = Searcher(tiny.path, EOS).search(PROMPT, BEAMS)
    searcher = Searcher(tiny.path, EOS, num_stripes=13)
    request = EngineRequest(
        request_id="other",
        prompt_token_ids=PROMPT[::-1],
        sampling_params=BEAMS,
        arrival_time=0.0,
    )
    searcher.engine.submit(request)
    said = [one for one in searcher.search(PROMPT, BEAMS) if one.request_id != "other"]
    assert _facts(said) == _facts(calm)


def _facts(said: list[SequenceOutput]) -> list[tuple[int, list[int], float | None]]:
    return [(output.index, output.token_ids, output.cumulative_logprob) for output in said]


@pytest.fixture(scope="module")
def smollm2(smollm2_path: Path) -> tuple[Tokenizer, Searcher, PreTrainedModel]:
    """With weights and keys in float32, as transformers computes."""
    with GGUFFile.open(smollm2_path) as file:
        tokenizer = Tokenizer.from_gguf(file.metadata)
    config = dataclasses.replace(CONFIG, dtype="float32")
    searcher = Searcher(smollm2_path, tokenizer.stop_token_ids, config)
    return tokenizer, searcher, smollm2_oracle(smollm2_path)


@pytest.mark.real_model
@pytest.mark.parametrize("text", ["The capital of France is", "def add(a, b):"])
def test_beams_of_a_real_model_are_those_of_transformers(
    smollm2: tuple[Tokenizer, Searcher, PreTrainedModel], text: str
) -> None:
    tokenizer, searcher, hf = smollm2
    prompt = tokenizer.encode(text, add_special_tokens=True)
    params = replace(BEAMS, max_tokens=10)
    expect_transformers_beams(searcher, hf, prompt, params, tokenizer.stop_token_ids, 1e-3)
