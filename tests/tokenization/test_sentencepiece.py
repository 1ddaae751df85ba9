"""The SentencePiece back end against the original library, on a model trained here."""

from __future__ import annotations

import io

import numpy as np
import pytest
import sentencepiece

from octavo.core.packed_texts import PackedTexts
from octavo.tokenization.spm_merges import merges_by_score
from octavo.tokenization.tokenizer import Tokenizer
from tests.tokenization.varied_text import varied_texts


@pytest.fixture(scope="module")
def original() -> sentencepiece.SentencePieceProcessor:
    """600 pieces with a space put before every text, as llama's."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(text.replace("\n", " ") for text in varied_texts(800, 7)),
        model_writer=model,
        model_type="bpe",
        vocab_size=900,
        byte_fallback=True,
        character_coverage=0.98,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        user_defined_symbols=["<tag>"],
        num_threads=1,
        minloglevel=2,
    )
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


def test_a_trained_model_gives_the_same_ids(
    original: sentencepiece.SentencePieceProcessor,
) -> None:
    ids = range(original.get_piece_size())
    types = [
        2 if original.is_unknown(id_)
        else 3 if original.is_control(id_)
        else 6 if original.is_byte(id_)
        else 1
        for id_ in ids
    ]  # fmt: skip
    pieces = [original.id_to_piece(id_) for id_ in ids]
    types[pieces.index("<tag>")] = 4
    tokenizer = Tokenizer.from_gguf(
        {
            "tokenizer.ggml.model": "llama",
            "tokenizer.ggml.tokens": PackedTexts.pack(pieces),
            "tokenizer.ggml.token_type": np.array(types, np.int32),
            "tokenizer.ggml.scores": np.array(list(map(original.get_score, ids)), np.float32),
            "tokenizer.ggml.unknown_token_id": original.unk_id(),
            "tokenizer.ggml.bos_token_id": original.bos_id(),
            "tokenizer.ggml.eos_token_id": original.eos_id(),
        }
    )
    for text in varied_texts(3000, 8, ["<s>", "</s>", "<unk>", "<0x0A>"]):
        ids_of_text = tokenizer.encode(text, add_special_tokens=False)
        assert ids_of_text == original.encode(text), repr(text)
        assert tokenizer.decode(ids_of_text) == text


def test_merges_are_all_cuts_in_order_of_score() -> None:
    pieces = ["a", "b", "ab", "aba", "ba", "x", "abab", "é", "bé"]
    scores = np.array([0, 0, -2, -1, -5, 0, -3, 0, -4], np.float64)
    results = np.ones(len(pieces), np.bool_)
    results[pieces.index("ba")] = False
    assert merges_by_score(pieces, results, scores) == [
        ("ab", "a"),
        ("a", "ba"),
        ("a", "b"),
        ("aba", "b"),
        ("ab", "ab"),
        ("b", "é"),
    ]
