"""Element types of keys and values, on a real model: answers differ from those with float32 only
where the model itself is undecided."""

from __future__ import annotations

from pathlib import Path

import pytest

from octavo import LLM, SamplingParams

pytestmark = pytest.mark.real_model

NUM_ANSWER_TOKENS = 48
PROMPTS = [
    "The capital of France is",
    "Paged attention keeps the keys and values of each sequence in small pages. The idea is",
    "def fibonacci(n):\n",
]
NEAR_TIE = 0.3
"""Log probabilities closer than this may change places: activations have 8 bits, too."""

Text = tuple[list[int], int]
"""Prompt and answer, and the length of the prompt."""


@pytest.fixture(scope="module")
def float32_texts(smollm2_path: Path) -> list[Text]:
    greedy = SamplingParams(temperature=0.0, max_tokens=NUM_ANSWER_TOKENS, ignore_eos=True)
    with LLM(str(smollm2_path), max_model_len=128, threads=2, kv_cache_dtype="float32") as llm:
        results = llm.generate(PROMPTS, greedy)
    return [
        ([*result.prompt_token_ids, *result.outputs[0].token_ids], len(result.prompt_token_ids))
        for result in results
    ]


@pytest.mark.parametrize("kv_cache_dtype", ["float16", "bfloat16", "int16", "int8"])
def test_answers_differ_from_float32_only_at_near_ties(
    kv_cache_dtype: str, float32_texts: list[Text], smollm2_path: Path
) -> None:
    """The answers given with float32 are read again: at each of their positions, how much more
    probable is this type's own choice than the token that float32 chose?"""
    reading = SamplingParams(temperature=0.0, max_tokens=1, prompt_logprobs=1)
    prompts = [{"prompt_token_ids": ids} for ids, _ in float32_texts]
    with LLM(str(smollm2_path), max_model_len=128, threads=2, kv_cache_dtype=kv_cache_dtype) as llm:
        results = llm.generate(prompts, reading)
    gaps = []
    for (ids, num_prompt), result in zip(float32_texts, results, strict=True):
        assert result.prompt_logprobs is not None
        for token, entry in list(zip(ids, result.prompt_logprobs, strict=True))[num_prompt:]:
            assert entry is not None
            gaps.append(max(one.logprob for one in entry.values()) - entry[token].logprob)
    report = f"{sum(gap > 0 for gap in gaps)} of {len(gaps)} differ, by {max(gaps):.3f} at most"
    assert max(gaps) <= NEAR_TIE, report
    assert sum(gap > 0 for gap in gaps) <= len(gaps) // 8, report
