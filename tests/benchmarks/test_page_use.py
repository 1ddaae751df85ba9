from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.scheduling import page_use
from octavo.bench.lengths import Fixed
from octavo.config.engine import EngineConfig
from octavo.engine.factory import load_engine


def test_answers_of_one_prompt_hold_less_than_separate_ones(
    smollm2_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_use, "PROMPT_TOKENS", 100)
    monkeypatch.setattr(page_use, "ANSWER_TOKENS", 4)
    engine = load_engine(EngineConfig(model=str(smollm2_path), max_model_len=256, max_num_seqs=8))
    monkeypatch.setattr(page_use, "MIX_REQUESTS", 3)
    monkeypatch.setattr(page_use, "MIX_LENGTHS", Fixed(17))
    most = {way: page_use.most_pages(engine, way) for way in page_use.WAYS}
    waste = page_use.mean_waste(engine)
    engine.close()
    assert most["separate"] == 8 * 7  # 104 tokens each
    assert most["n=8"] == 6 + 8  # six whole pages of the prompt, an end for each
    assert 7 <= most["8 beams"] <= 6 + 8
    assert 0.1 < waste < 0.5  # 17 to 33 tokens in two or three pages of 16
