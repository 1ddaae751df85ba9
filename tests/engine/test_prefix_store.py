"""A prefix cache outlives the engine: same tokens, fewer of them computed."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from octavo.config.engine import EngineConfig
from octavo.core.request import EngineRequest
from octavo.core.sampling_params import SamplingParams
from octavo.engine.engine import Engine
from octavo.engine.prefix_store import PrefixStore
from octavo.kernels._native import isa_levels
from octavo.kv.kv_manager import KvManager
from octavo.runner.load import load_runner
from octavo.scheduler.config import SchedulerConfig
from octavo.scheduler.scheduler import Scheduler
from octavo.weights.gguf import GGUFFile
from tests.models.tiny import MIXED, VOCABULARY, write_tiny

PROMPT = np.random.default_rng(11).integers(0, VOCABULARY, 100).tolist()


CONFIG = EngineConfig(
    max_model_len=200,
    max_num_seqs=4,
    max_num_batched_tokens=64,
    kv_cache_memory=8 << 20,
    kv_cache_dtype="int16",
    swap_space=0,
    threads=1,
    isa=isa_levels()[0],
    prefix_cache_dir="given",
)


def make_engine(
    model: Path, folder: Path, *, max_bytes: int = 1 << 20, config: EngineConfig = CONFIG
) -> Engine:
    with GGUFFile.open(model) as file:
        runner = load_runner(file, config, frozenset())
    kv = KvManager(runner.num_pages)
    store = PrefixStore(folder / "prefixes", max_bytes, kv, runner.pages)
    store.load()
    limits = SchedulerConfig(
        max_num_seqs=4, max_num_batched_tokens=64, max_model_len=200, max_logit_rows=64
    )
    return Engine(Scheduler(limits, kv), runner, None, prefix_store=store)


def answer(engine: Engine, prompt: list[int], cache_salt: str = "") -> tuple[list[int], int]:
    """Token ids, and how many of the prompt's were cached."""
    hits = engine.stats().prefix_cache_hits
    params = SamplingParams(temperature=0.0, max_tokens=12, ignore_eos=True)
    engine.submit(
        EngineRequest(
            request_id="r",
            prompt_token_ids=prompt,
            sampling_params=params,
            arrival_time=0.0,
            cache_salt=cache_salt,
        )
    )
    token_ids: list[int] = []
    while engine.has_work:
        for output in engine.step().outputs:
            token_ids += output.token_ids
    return token_ids, engine.stats().prefix_cache_hits - hits


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny("llama", tmp_path_factory.mktemp("model"), MIXED).path


def test_a_second_start_finds_the_prompt_and_answers_equally(model: Path, tmp_path: Path) -> None:
    first = make_engine(model, tmp_path)
    expected, num_cached = answer(first, PROMPT)
    assert num_cached == 0
    first.close()
    second = make_engine(model, tmp_path)
    assert answer(second, PROMPT) == (expected, 96)
    assert answer(second, PROMPT, cache_salt="other tenant") == (expected, 0)
    second.close()
    assert answer(make_engine(model, tmp_path), PROMPT, "other tenant") == (expected, 96)


def test_the_file_is_bounded_and_keeps_what_was_used_last(model: Path, tmp_path: Path) -> None:
    first = make_engine(model, tmp_path, max_bytes=60_000)
    other = PROMPT[::-1]
    answer(first, other)
    expected, _ = answer(first, PROMPT)
    first.close()
    assert (tmp_path / "prefixes").stat().st_size <= 60_000
    second = make_engine(model, tmp_path)
    assert second.stats().num_cached_pages < 12
    assert answer(second, PROMPT) == (expected, 96)


@pytest.mark.parametrize(
    "config", [replace(CONFIG, kv_cache_dtype="int8"), replace(CONFIG, isa="scalar")]
)
def test_other_arithmetic_finds_nothing(
    model: Path, tmp_path: Path, config: EngineConfig, caplog: pytest.LogCaptureFixture
) -> None:
    first = make_engine(model, tmp_path)
    answer(first, PROMPT)
    first.close()
    second = make_engine(model, tmp_path, config=config)
    assert second.stats().num_cached_pages == 0
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "are not used" in caplog.text


def test_weights_that_only_differ_in_value_find_nothing(model: Path, tmp_path: Path) -> None:
    first = make_engine(model, tmp_path)
    answer(first, PROMPT)
    first.close()
    changed = bytearray(model.read_bytes())
    with GGUFFile.open(model) as file:
        norm = file.tensors["output_norm.weight"]
    changed[norm.offset] ^= 1
    trained_on = tmp_path / "model.gguf"
    trained_on.write_bytes(changed)
    assert make_engine(trained_on, tmp_path).stats().num_cached_pages == 0


def test_a_reset_forgets_the_file_too(model: Path, tmp_path: Path) -> None:
    first = make_engine(model, tmp_path)
    expected, _ = answer(first, PROMPT)
    first.close()
    second = make_engine(model, tmp_path)
    second.reset_prefix_cache()
    second.close()
    assert list(tmp_path.iterdir()) == []
    assert answer(second, PROMPT) == (expected, 0)


def test_a_folder_that_cannot_be_written_is_a_line_in_the_log(
    model: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_bytes(b"")
    engine = make_engine(model, tmp_path / "file" / "folder")
    answer(engine, PROMPT)
    engine.close()
    assert "were not saved" in caplog.text
