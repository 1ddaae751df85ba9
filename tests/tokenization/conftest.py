"""Tokenizers of the real models, ours and those that transformers makes of the same files."""

from __future__ import annotations

from pathlib import Path

import pytest
import tokenizers
from transformers.integrations.gguf import convert_gguf_tokenizer, get_gguf_tokenizer

from octavo.tokenization.tokenizer import Tokenizer
from octavo.weights.gguf import GGUFFile


def _ours(path: Path) -> Tokenizer:
    return Tokenizer.from_gguf(GGUFFile.open(path).metadata, source=path)


def _theirs(path: Path) -> tokenizers.Tokenizer:
    """What AutoTokenizer.from_pretrained(folder, gguf_file=...) does, without the model's config,
    which takes it ten times as long to read."""
    architecture, data, _ = get_gguf_tokenizer(str(path))
    tokenizer: tokenizers.Tokenizer = convert_gguf_tokenizer(architecture, data)[0]
    return tokenizer


@pytest.fixture(scope="session")
def smollm2(smollm2_path: Path) -> Tokenizer:
    return _ours(smollm2_path)


@pytest.fixture(scope="session")
def gemma3(gemma3_path: Path) -> Tokenizer:
    return _ours(gemma3_path)


@pytest.fixture(scope="session")
def qwen05(qwen05_path: Path) -> Tokenizer:
    return _ours(qwen05_path)


@pytest.fixture(scope="session")
def smollm2_oracle(smollm2_path: Path) -> tokenizers.Tokenizer:
    return _theirs(smollm2_path)


@pytest.fixture(scope="session")
def gemma3_oracle(gemma3_path: Path) -> tokenizers.Tokenizer:
    return _theirs(gemma3_path)


@pytest.fixture(scope="session")
def qwen05_oracle(qwen05_path: Path) -> tokenizers.Tokenizer:
    return _theirs(qwen05_path)
