"""lm-eval's local-completions on a small task of ours: its log-likelihoods are octavo's own.

The literal requests that it makes are tried always; lm-eval itself where it is installed, which
takes half a gigabyte (the extra test-lm-eval).
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from octavo.core.sampling_params import SamplingParams
from octavo.entrypoints.llm import LLM
from tests.server.real_server import PATIENCE_SECONDS

TASKS = Path(__file__).parent / "lm_eval_tasks"


def _questions() -> list[tuple[str, str]]:
    """The context and the continuation of every choice, as the task's YAML says."""
    return [
        (f"Question: {record['question']}\nAnswer:", f" {choice}")
        for record in map(json.loads, (TASKS / "colours.jsonl").read_text().splitlines())
        for choice in record["choices"]
    ]


@pytest.fixture(scope="module")
def own(smollm2_path: Path) -> Iterator[LLM]:
    with LLM(str(smollm2_path), max_model_len=512) as llm:
        yield llm


def _tokens(llm: LLM, context: str, continuation: str) -> tuple[list[int], int]:
    """All ids, and how many of them are the context's."""
    tokenizer = llm.get_tokenizer()
    return tokenizer.encode(context + continuation), len(tokenizer.encode(context))


def _likelihood(llm: LLM, token_ids: list[int], num_context: int) -> tuple[float, bool]:
    """The continuation's log-likelihood, and whether each of its tokens is the most probable."""
    params = SamplingParams(prompt_logprobs=1, max_tokens=1, temperature=0)
    (output,) = llm.generate([{"prompt_token_ids": token_ids}], params, use_tqdm=False)
    assert output.prompt_logprobs is not None
    chosen = [
        entry[token_id]
        for token_id, entry in zip(token_ids, output.prompt_logprobs, strict=True)
        if entry is not None
    ][num_context - 1 :]
    return sum(one.logprob for one in chosen), all(one.rank == 1 for one in chosen)


@pytest.mark.parametrize("max_tokens", [0, 1])
def test_the_requests_of_lm_eval_get_the_likelihoods_of_octavo(
    own: LLM, smollm2_url: str, max_tokens: int
) -> None:
    """Word for word what it sends, several prompts at once, and how it reads the answer."""
    asked = [_tokens(own, *question) for question in _questions()]
    body = {
        "model": "m",
        "prompt": [token_ids for token_ids, _ in asked],
        "temperature": 0,
        "max_tokens": max_tokens,
        "logprobs": 1,
        "seed": 1234,
        "echo": True,
    }
    answer = httpx.post(
        f"{smollm2_url}/v1/completions",
        json=body,
        headers={"Authorization": "Bearer key"},
        timeout=PATIENCE_SECONDS,
    ).json()
    choices = sorted(answer["choices"], key=lambda choice: choice["index"])
    for (token_ids, num_context), choice in zip(asked, choices, strict=True):
        logprobs = choice["logprobs"]
        ours = slice(num_context, len(token_ids))
        assert len(logprobs["token_logprobs"]) == len(token_ids) + max_tokens
        pairs = list(
            zip(logprobs["token_logprobs"][ours], logprobs["top_logprobs"][ours], strict=True)
        )
        told = sum(one for one, _ in pairs), all(one == max(top.values()) for one, top in pairs)
        assert told == _likelihood(own, token_ids, num_context)


@pytest.mark.filterwarnings("ignore")  # its own
@pytest.mark.parametrize("options", [{"batch_size": 4}, {"tokenized_requests": False}])
def test_lm_eval_finds_the_likelihoods_of_octavo(
    own: LLM, smollm2_url: str, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    """Without a hub and without a tokenizer of its own: it asks the server for both."""
    for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    pytest.importorskip("lm_eval", reason="install the extra test-lm-eval")
    evaluator, tasks = map(importlib.import_module, ("lm_eval.evaluator", "lm_eval.tasks"))
    task = yaml.safe_load((TASKS / "colours.yaml").read_text())
    task["dataset_kwargs"] = {"data_files": {"test": str(TASKS / "colours.jsonl")}}
    result = evaluator.simple_evaluate(
        model="local-completions",
        model_args={
            "model": "m",
            "base_url": f"{smollm2_url}/v1/completions",
            "auth_token": "key",
            "max_length": 512,
            **options,
        },
        tasks=[task],
        task_manager=tasks.TaskManager(include_defaults=False),
        bootstrap_iters=0,
    )
    (samples,) = result["samples"].values()
    found = [
        (likelihood, is_greedy)
        for sample in sorted(samples, key=lambda sample: sample["doc_id"])
        for ((likelihood, is_greedy),) in sample["resps"]
    ]
    wanted = [_likelihood(own, *_tokens(own, *question)) for question in _questions()]
    assert [is_greedy for _, is_greedy in found] == [is_greedy for _, is_greedy in wanted]
    assert [float(one) for one, _ in found] == [one for one, _ in wanted]
    (scores,) = result["results"].values()
    assert scores["sample_len"] == 4
    assert 0 <= scores["acc,none"] <= 1
