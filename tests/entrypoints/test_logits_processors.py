"""Logits processors from outside, through `LLM` on a real model."""

from __future__ import annotations

from pathlib import Path

import pytest

from octavo import LLM, ProcessorCall, SamplingParams
from octavo.errors import ConfigError, EngineDead, InvalidRequest

EXAMPLES = "tests.sampling.processors.examples"
BANS, RAISING = f"{EXAMPLES}:Bans", f"{EXAMPLES}:Raising"


def _params(*calls: ProcessorCall) -> SamplingParams:
    return SamplingParams(temperature=0.0, max_tokens=6, logits_processors=list(calls) or None)


def test_a_processor_changes_its_request_alone(smollm2_path: Path) -> None:
    with LLM(str(smollm2_path), logits_processors=(BANS, RAISING)) as llm:
        (plain,) = llm.generate("The capital of France is", _params(), use_tqdm=False)
        ids = plain.outputs[0].token_ids
        ban = ProcessorCall(BANS, {"ids": ids[2:3], "after": 2})
        both = llm.generate(
            ["The capital of France is"] * 2, [_params(), _params(ban)], use_tqdm=False
        )
        assert both[0].outputs[0].token_ids == ids
        changed = both[1].outputs[0].token_ids
        assert changed[:2] == ids[:2]
        assert changed[2] != ids[2]
        with pytest.raises(EngineDead, match="Raising failed on this request"):
            llm.generate("Hello", _params(ProcessorCall(RAISING)), use_tqdm=False)
        with pytest.raises(InvalidRequest, match="this server has"):
            llm.generate("Hello", _params(ProcessorCall("other")), use_tqdm=False)
        (again,) = llm.generate("The capital of France is", _params(), use_tqdm=False)
        assert again.outputs[0].token_ids == ids


def test_one_that_cannot_be_had_stops_the_start(smollm2_path: Path) -> None:
    nothing = "no_such_module:Nothing"
    with pytest.raises(ConfigError, match=f"--logits-processors {nothing} cannot be loaded"):
        LLM(str(smollm2_path), logits_processors=(nothing,))
