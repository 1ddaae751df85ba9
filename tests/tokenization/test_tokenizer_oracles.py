"""Our tokenizers against transformers' and SentencePiece's, on thousands of varied strings.

Where transformers' reading of a GGUF file is known to deviate from the model's own tokenizer, the
oracle is put right first, by parts of another make than ours:

- SmolLM2: transformers ignores the pre-tokenizer name "smollm". The model's published tokenizer
  cuts every digit off before the GPT-2 rule, so that "  1" is two spaces and a digit.
- gemma3: transformers merges runs of spaces pairwise, which differs from the vocabulary's longest
  piece of 31 spaces from 32 on. There SentencePiece, the original, is the judge: see the last test.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import tokenizers
from tokenizers import pre_tokenizers

from octavo.core.packed_texts import PackedTexts
from octavo.tokenization.tokenizer import Tokenizer
from octavo.weights.gguf import GGUFFile
from tests.tokenization.sentencepiece_model import sentencepiece_bpe
from tests.tokenization.varied_text import varied_texts

NUM_TEXTS = 3200
LONG_SPACES = re.compile(" {32}")


def spellings(tokenizer: Tokenizer) -> list[str]:
    special = filter(tokenizer.is_special, range(tokenizer.vocab_size))
    return [tokenizer.token_text(token_id) for token_id in special][:400]


def assert_equal_ids(tokenizer: Tokenizer, oracle: tokenizers.Tokenizer, texts: list[str]) -> None:
    """Special spellings parsed, and taken as plain text; and the text of the ids."""
    for text in texts:
        ids = tokenizer.encode(text, add_special_tokens=False, parse_special=True)
        oracle.encode_special_tokens = False
        assert ids == oracle.encode(text, add_special_tokens=False).ids, repr(text)
        for skip in (False, True):
            decoded = tokenizer.decode(ids, skip_special_tokens=skip)
            assert decoded == oracle.decode(ids, skip_special_tokens=skip), repr(text)
        plain = tokenizer.encode(text, add_special_tokens=False)
        oracle.encode_special_tokens = True
        assert plain == oracle.encode(text, add_special_tokens=False).ids, repr(text)
        oracle.encode_special_tokens = False


def test_smollm2_equals_transformers(
    smollm2: Tokenizer, smollm2_oracle: tokenizers.Tokenizer
) -> None:
    smollm2_oracle.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    texts = varied_texts(NUM_TEXTS, 1, spellings(smollm2))
    assert_equal_ids(smollm2, smollm2_oracle, texts)


def test_qwen2_equals_transformers(qwen05: Tokenizer, qwen05_oracle: tokenizers.Tokenizer) -> None:
    texts = varied_texts(NUM_TEXTS, 2, spellings(qwen05))
    assert_equal_ids(qwen05, qwen05_oracle, texts)


def test_gemma3_equals_transformers(gemma3: Tokenizer, gemma3_oracle: tokenizers.Tokenizer) -> None:
    texts = varied_texts(NUM_TEXTS, 3, [*spellings(gemma3), "<h1>", "</table>"])
    texts = [text for text in texts if not LONG_SPACES.search(text)]
    assert len(texts) > 3000
    assert_equal_ids(gemma3, gemma3_oracle, texts)


def test_gemma3_equals_sentencepiece(gemma3: Tokenizer, gemma3_path: Path) -> None:
    metadata = GGUFFile.open(gemma3_path).metadata
    tokens, scores, types = (
        metadata[f"tokenizer.ggml.{name}"] for name in ("tokens", "scores", "token_type")
    )
    assert isinstance(tokens, PackedTexts)
    assert isinstance(scores, np.ndarray)
    assert isinstance(types, np.ndarray)
    original = sentencepiece_bpe(
        list(tokens), scores.tolist(), types.tolist(), 3, add_dummy_prefix=False
    )
    texts = varied_texts(NUM_TEXTS, 4, [*spellings(gemma3), "<h1>", " " * 40])
    assert any(map(LONG_SPACES.search, texts))
    for text in texts:
        assert gemma3.encode(text, add_special_tokens=False) == original.encode(text), repr(text)


@pytest.mark.parametrize(
    ("text", "num_ids"), [("  1", 2), ("12", 2), ("a 1", 3), (" " * 9 + "1", 2)]
)
def test_smollm2_cuts_off_digits(smollm2: Tokenizer, text: str, num_ids: int) -> None:
    ids = smollm2.encode(text, add_special_tokens=False)
    assert len(ids) == num_ids
    assert smollm2.decode(ids) == text
