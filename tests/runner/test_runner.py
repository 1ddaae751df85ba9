"""The runner as the engine uses it: loaded from a file, one result per scheduled sequence."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

from octavo.config.engine import EngineConfig
from octavo.core.sampling_params import SamplingParams
from octavo.core.schedule import MoveKind, PageMove, ScheduledSequence, ScheduledStep
from octavo.errors import ConfigError, WeightError
from octavo.kernels._native import KvCache, isa_levels
from octavo.runner.load import load_runner
from octavo.runner.page_memory import PageMemory, measure_move_seconds
from octavo.runner.swap_buffer import SwapBuffer
from octavo.weights.gguf import GGUFFile
from tests.models.checks import hf_logits, sequence_of, step_of
from tests.models.tiny import MIXED, PLAIN, VOCABULARY, write_tiny

CONFIG = EngineConfig(
    max_model_len=200,
    max_num_seqs=4,
    max_num_batched_tokens=64,
    kv_cache_memory=8 << 20,
    kv_cache_dtype="float32",
    swap_space=1 << 20,
    threads=2,
    isa=isa_levels()[0],
)
STOPS: frozenset[int] = frozenset()
IDS = np.random.default_rng(5).integers(0, VOCABULARY, 40).tolist()


@pytest.mark.parametrize("name", ["llama", "qwen2", "gemma3"])
def test_greedy_tokens_are_those_of_transformers(name: str, tmp_path: Path) -> None:
    tiny = write_tiny(name, tmp_path, PLAIN)
    with GGUFFile.open(tiny.path) as file:
        runner = load_runner(file, CONFIG, STOPS)
    sequence = sequence_of(IDS)
    num_groups = runner.groups.num
    sequence.page_table = [
        page * num_groups + group for page in (9, 4, 7) for group in range(num_groups)
    ]
    done = 0
    for _ in range(6):
        tokens = sequence.num_tokens - done
        step = ScheduledStep([ScheduledSequence(sequence, done, tokens, samples=True)], tokens)
        token_id = runner.run(step).results[0].token_id
        assert token_id == hf_logits(tiny.hf, sequence.token_ids)[-1].argmax()
        assert token_id is not None
        done = sequence.num_tokens
        sequence.token_ids.append(token_id)


def test_results_keep_the_order_of_the_step_and_only_samplers_get_tokens(tmp_path: Path) -> None:
    with GGUFFile.open(write_tiny("llama", tmp_path, MIXED).path) as file:
        runner = load_runner(file, CONFIG, STOPS)
    first, second = sequence_of(IDS[:17]), sequence_of(IDS, first_page=4)
    both = ScheduledStep(
        [
            ScheduledSequence(first, 0, 17, samples=True),
            ScheduledSequence(second, 0, 20, samples=False),
        ],
        37,
    )
    results = runner.run(both).results
    alone = runner.run(ScheduledStep([both.sequences[0]], 17)).results
    assert [results[0].token_id, results[1].token_id] == [alone[0].token_id, None]


def test_prompt_logprobs_come_for_every_row(tmp_path: Path) -> None:
    with GGUFFile.open(write_tiny("llama", tmp_path, MIXED).path) as file:
        runner = load_runner(file, CONFIG, STOPS)
    result = runner.run(step_of((sequence_of(IDS), 0, 40))).results[0]
    assert result.prompt_logprobs is not None
    assert [entry.token_id for entry in result.prompt_logprobs] == IDS[1:]
    assert result.token_id is not None


def test_logits_without_a_number_give_token_0_and_are_counted(tmp_path: Path) -> None:
    """As a damaged model file makes them: its last norm is NaN."""
    with GGUFFile.open(write_tiny("llama", tmp_path, PLAIN).path) as file:
        path, norm = file.path, file.tensors["output_norm.weight"]
    content = bytearray(path.read_bytes())
    content[norm.offset : norm.offset + norm.num_bytes] = np.full(
        norm.num_bytes // 4, np.nan, np.float32
    ).tobytes()
    path.write_bytes(content)
    with GGUFFile.open(path) as file:
        runner = load_runner(file, CONFIG, STOPS)
    result = runner.run(step_of((sequence_of(IDS), 0, 40)))
    assert result.num_undefined_rows == 1
    assert result.results[0].token_id == 0


def test_stop_tokens_are_kept_out_of_answers_that_must_go_on(tmp_path: Path) -> None:
    """The most probable token is made a stop token; min_tokens then keeps it out."""
    with GGUFFile.open(write_tiny("llama", tmp_path, MIXED).path) as file:
        step = step_of((sequence_of(IDS), 0, 40))
        likely = load_runner(file, CONFIG, STOPS).run(step).results[0].token_id
        assert likely is not None
        runner = load_runner(file, CONFIG, frozenset({likely}))
    assert runner.run(step).results[0].token_id == likely
    sequence = step.sequences[0].sequence
    request = msgspec.structs.replace(
        sequence.request, sampling_params=SamplingParams(temperature=0.0, min_tokens=1)
    )
    step.sequences[0].sequence = replace(sequence, request=request)
    assert runner.run(step).results[0].token_id not in (likely, None)


def test_limits_are_those_of_the_options(tmp_path: Path) -> None:
    with GGUFFile.open(write_tiny("llama", tmp_path, MIXED).path) as file:
        runner = load_runner(file, CONFIG, STOPS)
    assert runner.max_model_len == 200
    assert runner.max_logit_rows == 64
    assert runner.num_pages == (8 << 20) // (3 * 2 * 16 * 2 * 16 * 4)
    with pytest.raises(ValueError, match="at most 64"):
        runner.run(step_of((sequence_of(range(65)), 0, 65)))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int16", "int8"])
def test_pages_that_were_moved_give_the_same_probabilities(dtype: str, tmp_path: Path) -> None:
    """Two pages go out, are overwritten in the same step, and come back elsewhere; the third is
    copied. The last tokens then see nothing of that."""
    with GGUFFile.open(write_tiny("llama", tmp_path, MIXED).path) as file:
        runner = load_runner(file, replace(CONFIG, kv_cache_dtype=dtype), STOPS)
    sequence, other = sequence_of(IDS), sequence_of(IDS[::-1])
    sequence.page_table, other.page_table = [9, 4, 7], [4, 9, 3]
    undisturbed = runner.run(step_of((sequence, 0, 40))).results[0]
    moves = [PageMove(MoveKind.SWAP_OUT, 9, 5), PageMove(MoveKind.SWAP_OUT, 4, 0)]
    runner.run(replace(step_of((other, 0, 40)), moves=moves))
    back = [
        PageMove(MoveKind.SWAP_IN, 5, 2),
        PageMove(MoveKind.COPY, 7, 1),
        PageMove(MoveKind.SWAP_IN, 0, 7),
    ]
    assert runner.run(ScheduledStep(moves=back)).results == []
    sequence.page_table = [2, 7, 1]
    again = runner.run(step_of((sequence, 38, 40))).results[0]
    assert again.token_id == undisturbed.token_id
    assert undisturbed.prompt_logprobs is not None
    assert again.prompt_logprobs == undisturbed.prompt_logprobs[38:]


def test_a_profile_has_a_time_for_each_instruction(tmp_path: Path) -> None:
    with GGUFFile.open(write_tiny("llama", tmp_path, MIXED).path) as file:
        runner = load_runner(file, CONFIG, STOPS)
    seconds = runner.profile(33)
    assert len(seconds) == len(runner.program.instructions)
    assert all(0 <= one < 10 for one in seconds)
    lines = runner.program.to_text(seconds).splitlines()
    assert len(lines) == len(seconds) + 1
    assert all(" us " in line for line in lines[:-1])


def test_moves_are_measured_on_other_pages_than_those_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that an idle server's pages have never been written, and take no memory."""
    measured: list[tuple[KvCache, SwapBuffer]] = []

    def watched(cache: KvCache, swap: SwapBuffer) -> float:
        measured.append((cache, swap))
        return measure_move_seconds(cache, swap)

    monkeypatch.setattr("octavo.runner.load.measure_move_seconds", watched)
    with GGUFFile.open(write_tiny("llama", tmp_path, MIXED).path) as file:
        runner = load_runner(file, CONFIG, STOPS)
    ((cache, swap),) = measured
    scratch = PageMemory(cache, swap)
    content = np.full(runner.pages.page_bytes, 7, np.uint8)
    runner.pages.write(0, content)
    runner.pages.do([PageMove(MoveKind.SWAP_OUT, 0, 0)])
    assert not np.array_equal(scratch.read(0), content)
    scratch.do([PageMove(MoveKind.SWAP_IN, 0, 0)])
    assert not np.array_equal(scratch.read(0), content)


def test_a_closed_runner_says_so(tmp_path: Path) -> None:
    with GGUFFile.open(write_tiny("llama", tmp_path, MIXED).path) as file:
        runner = load_runner(file, CONFIG, STOPS)
    runner.close()
    with pytest.raises(ValueError, match="closed"):
        runner.profile(1)


def test_memory_that_is_too_small_is_refused_before_weights_are_packed(tmp_path: Path) -> None:
    with (
        GGUFFile.open(write_tiny("llama", tmp_path, MIXED).path) as file,
        pytest.raises(ConfigError, match="kv-cache-memory"),
    ):
        load_runner(file, replace(CONFIG, kv_cache_memory=1000), STOPS, _no_progress)


def test_a_file_with_a_missing_tensor_is_refused_before_weights_are_packed(tmp_path: Path) -> None:
    file = GGUFFile.open(write_tiny("llama", tmp_path, MIXED).path)
    file.tensors = {k: v for k, v in file.tensors.items() if k != "blk.1.ffn_up.weight"}
    with pytest.raises(WeightError, match=r"blk\.1\.ffn_up\.weight"):
        load_runner(file, CONFIG, STOPS, _no_progress)


def _no_progress(done_bytes: int, total_bytes: int) -> None:
    raise AssertionError(f"packed {done_bytes} of {total_bytes} bytes")
