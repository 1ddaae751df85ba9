"""What an engine is made of, as its options say."""

from __future__ import annotations

from pathlib import Path

import pytest

from octavo.config.engine import EngineConfig
from octavo.engine.factory import load_engine
from octavo.engine.grammars import load_grammar_vocabulary
from octavo.structured.vocabulary import GrammarVocabulary


@pytest.mark.parametrize("preload_grammars", [False, True])
def test_the_vocabulary_of_grammars_is_there_at_start_if_an_option_says_so(
    preload_grammars: bool, smollm2_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[Path] = []

    def watched(path: Path, vocab_size: int) -> GrammarVocabulary:
        loaded.append(path)
        return load_grammar_vocabulary(path, vocab_size)

    monkeypatch.setattr("octavo.engine.factory.load_grammar_vocabulary", watched)
    config = EngineConfig(
        model=str(smollm2_path), max_model_len=128, preload_grammars=preload_grammars
    )
    engine = load_engine(config)
    engine.close()
    assert loaded == [smollm2_path] * preload_grammars
