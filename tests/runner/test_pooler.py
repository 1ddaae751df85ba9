"""Pooled hidden states: as a naive loop and transformers have them, the same bits however cut."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt
import pytest
import torch
from transformers import PreTrainedModel

from octavo.core.pooling import POOLING_TYPES, Pooling, PoolingType
from octavo.core.sampling_params import SamplingParams
from octavo.core.schedule import ScheduledSequence, ScheduledStep, SequenceResult
from octavo.core.sequence import Sequence
from octavo.kernels._native import ThreadPool, isa_levels
from octavo.runner.pooler import HiddenPooler
from octavo.tokenization.tokenizer import Tokenizer
from octavo.weights.gguf import GGUFFile
from octavo.weights.loader import load_weights
from tests.models.checks import sequence_of
from tests.models.native import NativeModel, NativeOptions
from tests.models.oracle import smollm2_oracle
from tests.models.tiny import MIXED, PLAIN, VOCABULARY, write_tiny

F32 = npt.NDArray[np.float32]
Cut = tuple[int, int]

WIDTH = 96
RNG = np.random.default_rng(3)
ROWS = RNG.normal(size=(150, WIDTH)).astype(np.float32)
NORM = RNG.normal(size=WIDTH).astype(np.float32)
EPS = 1e-5
IDS = RNG.integers(0, VOCABULARY, 150).tolist()
LEVEL = isa_levels()[0]
TEXTS = ("The sea is blue, and so is the sky.", "def f(x):\n    return x + 1\n", "One")


def embedded(
    num_tokens: int, method: PoolingType, *, normalize: bool = True, dimensions: int = WIDTH
) -> Sequence:
    """A sequence that wants to be a vector."""
    sequence = sequence_of(IDS[:num_tokens])
    pooling = Pooling(method=method, normalize=normalize, dimensions=dimensions)
    request = msgspec.structs.replace(
        sequence.request, pooling=pooling, sampling_params=SamplingParams(max_tokens=0)
    )
    return replace(sequence, request=request)


def cuts(num_tokens: int, size: int) -> list[Cut]:
    return [(start, min(start + size, num_tokens)) for start in range(0, num_tokens, size)]


def pool(
    pooler: HiddenPooler, sequence: Sequence, chunks: Iterable[Cut], before: int = 0
) -> bytes | None:
    """In these chunks, each behind `before` rows of somebody else."""
    other = sequence_of(IDS[: max(1, before)])
    embedding = None
    for start, stop in chunks:
        parts = [ScheduledSequence(sequence, start, stop - start, samples=False)]
        if before:
            parts.insert(0, ScheduledSequence(other, 0, before, samples=False))
        rows = np.concatenate([ROWS[:before], ROWS[start:stop]])
        results = [SequenceResult() for _ in parts]
        pooler.pool(lambda rows=rows: rows, ScheduledStep(parts, len(rows)), results)  # type: ignore[misc]
        sequence.pooled, embedding = results[-1].pooled, results[-1].embedding
        assert (embedding is not None) == (stop == sequence.num_tokens)
    return embedding


def naive(rows: F32, method: PoolingType, *, normalize: bool, dimensions: int) -> F32:
    wide = rows.astype(np.float64)
    normed = [row / np.sqrt(np.mean(row**2) + EPS) * NORM for row in wide]
    vector = {"mean": np.mean(normed, axis=0), "last": normed[-1], "cls": normed[0]}[method]
    vector = vector[:dimensions]
    wanted: F32 = (vector / np.linalg.norm(vector) if normalize else vector).astype(np.float32)
    return wanted


@pytest.mark.parametrize("method", POOLING_TYPES)
@pytest.mark.parametrize(("normalize", "dimensions"), [(True, WIDTH), (True, 7), (False, 33)])
def test_vectors_are_those_of_a_naive_loop(
    method: PoolingType, normalize: bool, dimensions: int
) -> None:
    sequence = embedded(150, method, normalize=normalize, dimensions=dimensions)
    data = pool(HiddenPooler(NORM, EPS), sequence, [(0, 150)])
    assert data is not None
    got = np.frombuffer(data, "<f4")
    wanted = naive(ROWS[:150], method, normalize=normalize, dimensions=dimensions)
    np.testing.assert_allclose(got, wanted, rtol=2e-7, atol=1e-12)
    if normalize:
        assert np.linalg.norm(got) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("method", POOLING_TYPES)
@pytest.mark.parametrize("num_tokens", [1, 2, 65, 150])
def test_chunks_and_neighbours_change_no_bit(method: PoolingType, num_tokens: int) -> None:
    pooler = HiddenPooler(NORM, EPS)
    alone = pool(pooler, embedded(num_tokens, method), [(0, num_tokens)])
    for size in (1, 7, 64):
        for before in (0, 1, 30):
            chunks = cuts(num_tokens, size)
            assert pool(pooler, embedded(num_tokens, method), chunks, before) == alone


@pytest.mark.parametrize("method", POOLING_TYPES)
def test_who_starts_over_forgets_what_was_pooled(method: PoolingType) -> None:
    pooler = HiddenPooler(NORM, EPS)
    again = embedded(40, method)
    assert pool(pooler, again, [(0, 13), (13, 30)]) is None
    assert pool(pooler, again, [(0, 40)]) == pool(pooler, embedded(40, method), [(0, 40)])


def test_a_step_without_vectors_is_not_read() -> None:
    def nobody_reads() -> F32:
        raise AssertionError("hidden states were read")

    part = ScheduledSequence(sequence_of(IDS), 0, 150, samples=True)
    HiddenPooler(NORM, EPS).pool(nobody_reads, ScheduledStep([part], 150), [SequenceResult()])


def test_zeros_have_no_direction() -> None:
    sequence = embedded(1, "last")
    part = ScheduledSequence(sequence, 0, 1, samples=False)
    result = SequenceResult()
    zeros = np.zeros((1, WIDTH), np.float32)
    HiddenPooler(np.abs(NORM), EPS).pool(lambda: zeros, ScheduledStep([part], 1), [result])
    assert result.embedding == bytes(4 * WIDTH)


# --- on real programs ---------------------------------------------------------------------------


class Embedder:
    """A native model and its pooler, without scheduler and engine."""

    def __init__(self, path: Path, options: NativeOptions) -> None:
        self._native = NativeModel(path, options)
        model = self._native.model
        with GGUFFile.open(path) as file:
            norm = np.asarray(
                load_weights(file, [model.norm], "float32", ThreadPool(1))[model.norm.name]
            )
        self._pooler = HiddenPooler(norm, model.config.norm_eps)
        self.width = model.config.hidden_size

    def embed(self, ids: list[int], method: PoolingType, chunks: Iterable[Cut]) -> F32:
        request = embedded(1, method, dimensions=self.width).request
        sequence = replace(sequence_of(ids), request=request)
        result = SequenceResult()
        for start, stop in chunks:
            part = ScheduledSequence(sequence, start, stop - start, samples=False)
            step = ScheduledStep([part], stop - start)
            assert len(self._native.logits(step)) == 0
            result = SequenceResult()
            self._pooler.pool(self._native.executable.hidden, step, [result])
            sequence.pooled = result.pooled
        assert result.embedding is not None
        return np.frombuffer(result.embedding, "<f4")


def hf_states(hf: PreTrainedModel, ids: list[int]) -> npt.NDArray[np.float64]:
    """transformers' hidden states after the last norm, [tokens, K]."""
    with torch.no_grad():
        states: npt.NDArray[np.float64] = (
            hf.model(torch.tensor([ids])).last_hidden_state[0].double().numpy()
        )
    return states


def pooled(states: npt.NDArray[np.float64], method: PoolingType) -> npt.NDArray[np.float64]:
    """Of length 1."""
    vector = {"mean": states.mean(axis=0), "last": states[-1], "cls": states[0]}[method]
    unit: npt.NDArray[np.float64] = vector / np.linalg.norm(vector)
    return unit


@pytest.mark.parametrize("method", POOLING_TYPES)
@pytest.mark.parametrize("name", ["llama", "qwen2", "gemma3"])
def test_tiny_models_embed_as_transformers_does(
    name: str, method: PoolingType, tmp_path: Path
) -> None:
    tiny = write_tiny(name, tmp_path, PLAIN)
    embedder = Embedder(tiny.path, NativeOptions(level=LEVEL))
    wanted = pooled(hf_states(tiny.hf, IDS[:60]), method)
    got = embedder.embed(IDS[:60], method, [(0, 37), (37, 38), (38, 60)])
    assert np.abs(got - wanted).max() <= 1e-5


@pytest.mark.parametrize("level", isa_levels())
def test_chunks_of_a_quantised_program_change_no_bit(level: str, tmp_path: Path) -> None:
    path = write_tiny("qwen2", tmp_path, MIXED).path
    embedder = Embedder(path, NativeOptions(level=level, kv_dtype="int16"))
    alone = embedder.embed(IDS, "mean", [(0, 150)])
    for size in (1, 7, 64):
        assert np.array_equal(embedder.embed(IDS, "mean", cuts(150, size)), alone)


@pytest.fixture(scope="module")
def expected(smollm2_path: Path) -> list[tuple[list[int], npt.NDArray[np.float64]]]:
    """Ids and transformers' states of each text, on the file's values in float32."""
    with GGUFFile.open(smollm2_path) as file:
        tokenizer = Tokenizer.from_gguf(file.metadata)
    hf = smollm2_oracle(smollm2_path)
    texts = [tokenizer.encode(text, add_special_tokens=True) for text in TEXTS]
    return [(ids, hf_states(hf, ids)) for ids in texts]


@pytest.mark.real_model
@pytest.mark.parametrize(("dtype", "least"), [("float32", 0.999999), ("auto", 0.99)])
def test_a_real_model_embeds_as_transformers_does(
    smollm2_path: Path,
    expected: list[tuple[list[int], npt.NDArray[np.float64]]],
    dtype: str,
    least: float,
) -> None:
    kv_dtype = "float32" if dtype == "float32" else "int16"
    embedder = Embedder(smollm2_path, NativeOptions(level=LEVEL, dtype=dtype, kv_dtype=kv_dtype))
    for ids, states in expected:
        for method in POOLING_TYPES:
            got = embedder.embed(ids, method, [(0, len(ids))])
            assert float(got @ pooled(states, method)) >= least, (ids, method)
