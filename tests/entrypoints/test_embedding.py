"""`LLM.embed`, `encode` and `score` on a real model, and the official client's embeddings of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import octavo
from octavo import LLM, PoolingParams, SamplingParams
from octavo.errors import InvalidRequest, PromptTooLong

TEXTS = [
    "The weather is lovely today.",
    "It's so sunny outside!",
    "He drove to the stadium.",
    "def add(a, b):\n    return a + b\n",
]


@pytest.fixture(scope="module")
def mean_llm(smollm2_path: Path) -> Iterator[LLM]:
    """In steps of 16 tokens, so that texts are computed in chunks."""
    config = '{"pooling_type": "MEAN"}'
    with octavo.LLM(
        str(smollm2_path),
        max_model_len=512,
        max_num_seqs=4,
        max_num_batched_tokens=16,
        kv_cache_memory="64M",
        override_pooler_config=config,
    ) as llm:
        yield llm


def test_a_text_alone_and_in_a_crowd_is_the_same_vector(mean_llm: LLM, llm: LLM) -> None:
    for model in (mean_llm, llm):
        together = model.embed(TEXTS, use_tqdm=False)
        alone = [model.embed(text, use_tqdm=False)[0] for text in TEXTS]
        assert [one.outputs for one in together] == [one.outputs for one in alone]
        for one, text in zip(together, TEXTS, strict=True):
            assert one.prompt_token_ids == model.get_tokenizer().encode(
                text, add_special_tokens=True
            )
            assert one.outputs.hidden_size == 576
            assert np.linalg.norm(one.outputs.embedding) == pytest.approx(1, abs=1e-6)


def test_the_length_of_steps_changes_no_bit(mean_llm: LLM, smollm2_path: Path) -> None:
    options = {"max_model_len": 512, "kv_cache_memory": "64M", "pooling_type": "mean"}
    with octavo.LLM(str(smollm2_path), **options) as other:
        for text in ("word " * 70, TEXTS[3]):
            (cut,) = mean_llm.encode(text, use_tqdm=False)
            (whole,) = other.encode(text, use_tqdm=False)
            assert np.array_equal(cut.outputs.data, whole.outputs.data)


def test_vectors_do_not_depend_on_words_before_them(llm: LLM) -> None:
    before = llm.embed(TEXTS, use_tqdm=False)
    llm.generate(TEXTS, SamplingParams(max_tokens=8, temperature=0.0), use_tqdm=False)
    after = llm.embed(TEXTS, use_tqdm=False)
    assert [one.outputs for one in after] == [one.outputs for one in before]


def test_wishes_are_honoured(mean_llm: LLM) -> None:
    plain = PoolingParams(normalize=False)
    short = PoolingParams(dimensions=64)
    first, second = mean_llm.encode([TEXTS[0]] * 2, [plain, short], use_tqdm=False)
    assert first.outputs.data.shape == (576,)
    unit = first.outputs.data[:64] / np.linalg.norm(first.outputs.data[:64])
    np.testing.assert_allclose(second.outputs.data, unit, rtol=1e-5)
    ids = first.prompt_token_ids
    cut = PoolingParams(truncate_prompt_tokens=3)
    assert (
        mean_llm.embed(TEXTS[0], pooling_params=cut, use_tqdm=False)[0].prompt_token_ids
        == (ids[-3:])
    )


def test_like_texts_score_higher(mean_llm: LLM) -> None:
    scores = [one.outputs.score for one in mean_llm.score(TEXTS[0], TEXTS[:3], use_tqdm=False)]
    assert scores[0] == pytest.approx(1, abs=1e-6)
    assert scores[1] > scores[2]
    pairs = mean_llm.score(TEXTS[:2], TEXTS[1:3], use_tqdm=False)
    assert pairs[0].outputs.score == scores[1]
    assert (
        mean_llm.score(
            TEXTS[0], TEXTS[1], use_tqdm=False, pooling_params=PoolingParams(normalize=False)
        )[0].outputs.score
        == scores[1]
    )


def test_what_cannot_be_honoured_is_refused_before_anything_runs(mean_llm: LLM) -> None:
    with pytest.raises(InvalidRequest, match="pooling_task is 'classify'"):
        mean_llm.encode("a", pooling_task="classify")
    with pytest.raises(InvalidRequest, match="2 pooling_params for 1 prompts"):
        mean_llm.embed("a", pooling_params=[PoolingParams()] * 2)
    with pytest.raises(InvalidRequest, match="dimensions is 577"):
        mean_llm.embed("a", pooling_params=PoolingParams(dimensions=577))
    with pytest.raises(PromptTooLong):
        mean_llm.embed([[1] * 513])
    with pytest.raises(InvalidRequest, match="data_1 has 2 prompts and data_2 1"):
        mean_llm.score(["a", "b"], "c")
    assert mean_llm.get_metrics().num_waiting == 0
