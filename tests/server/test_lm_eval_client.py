"""lm-eval's local-completions on a small task of ours: its log-likelihoods are octavo's own.

The literal requests that it makes are tried always; lm-eval itself where it is installed, which
takes half a gigabyte (the extra test-lm-eval).
"""

from __future__ import annotations

import importlib
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from octavo.core.sampling_params import SamplingParams
from octavo.entrypoints.llm import LLM
from tests.server.real_server import PATIENCE_SECONDS

TASKS = Path(__file__).parent / "lm_eval_tasks"
Answers = list[tuple[float, bool]]


def _questions() -> Iterator[tuple[str, str]]:
    for line in (TASKS / "colours.jsonl").read_text().splitlines():
        record = json.loads(line)
        for choice in record["choices"]:
            yield f"Question: {record['question']}\nAnswer:", f" {choice}"


def _own(llm: LLM, context: str, continuation: str) -> tuple[list[int], int, float, bool]:
    """All ids, how many are the context's, the continuation's log-likelihood, whether greedy."""
    ids = llm.tokenizer.encode(context + continuation)
    num_context = len(llm.tokenizer.encode(context))
    params = SamplingParams(prompt_logprobs=1, max_tokens=1, temperature=0)
    (output,) = llm.generate([{"prompt_token_ids": ids}], params)
    assert output.prompt_logprobs is not None
    entries = output.prompt_logprobs[num_context:]
    total, is_greedy = 0.0, True
    for token_id, entry in zip(ids[num_context:], entries, strict=True):
        total += entry[token_id].logprob
        is_greedy &= entry[token_id].rank == 1
    return ids, num_context, total, is_greedy
