"""Special tokens, BOS, stop ids and limits, on the real SmolLM2 and gemma3 vocabularies."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from octavo.core.packed_texts import PackedTexts
from octavo.errors import TokenizerError
from octavo.tokenization.split_rules import SPLIT_RULES
from octavo.tokenization.tokenizer import Tokenizer
from octavo.weights.gguf import GGUFFile
from tests.tokenization.small_models import byte_level_metadata, sentencepiece_metadata


def test_spellings_of_control_tokens_are_plain_text_unless_asked_for(smollm2: Tokenizer) -> None:
    specials = [id_ for id_ in range(smollm2.vocab_size) if smollm2.is_special(id_)]
    text = "".join(smollm2.token_text(id_) for id_ in specials)
    plain = smollm2.encode(text, add_special_tokens=False)
    assert not any(map(smollm2.is_special, plain))
    assert smollm2.decode(plain) == text
    assert smollm2.encode(text, add_special_tokens=False, parse_special=True) == specials


def test_gemma3_never_makes_a_control_id_from_plain_text(gemma3: Tokenizer) -> None:
    specials = [id_ for id_ in range(gemma3.vocab_size) if gemma3.is_special(id_)]
    assert len(specials) > 6000
    text = " ".join(gemma3.token_text(id_) for id_ in specials)
    assert not any(map(gemma3.is_special, gemma3.encode(text, add_special_tokens=False)))
    joined = text.replace(" ", "")
    assert gemma3.encode(joined, add_special_tokens=False, parse_special=True) == specials


@pytest.mark.parametrize("parse_special", [False, True])
def test_there_is_one_bos_even_if_the_text_spells_it(
    gemma3: Tokenizer, parse_special: bool
) -> None:
    ids = gemma3.encode("<bos>Hello", add_special_tokens=True, parse_special=parse_special)
    assert gemma3.adds_bos
    assert ids[0] == gemma3.bos_token_id == 2
    assert ids.count(2) == 1
    assert gemma3.encode("") == gemma3.encode("", add_special_tokens=True) == [2]


def test_smollm2_adds_no_bos(smollm2: Tokenizer) -> None:
    assert not smollm2.adds_bos
    assert smollm2.encode("", add_special_tokens=True) == []
    assert smollm2.encode("Hi", add_special_tokens=True) == smollm2.encode(
        "Hi", add_special_tokens=False
    )


def test_ends_of_turn_stop_an_answer(smollm2: Tokenizer, gemma3: Tokenizer) -> None:
    assert {smollm2.token_text(id_) for id_ in smollm2.stop_token_ids} == {
        "<|im_end|>",
        "<|endoftext|>",
    }
    # </s> is in gemma's vocabulary too, as the HTML tag.
    assert {gemma3.token_text(id_) for id_ in gemma3.stop_token_ids} == {"<eos>", "<end_of_turn>"}


def test_token_bytes_joined_are_the_text(smollm2: Tokenizer, gemma3: Tokenizer) -> None:
    text = "naïve 🎉\n\t日本語  x\u0301"
    for tokenizer in (smollm2, gemma3):
        ids = tokenizer.encode(text, add_special_tokens=False)
        assert b"".join(map(tokenizer.token_bytes, ids)) == text.encode()
    assert gemma3.token_bytes(238 + 0xE2) == b"\xe2"


def test_ids_of_padding_rows_add_no_text(smollm2: Tokenizer) -> None:
    ids = smollm2.encode("Hi there", add_special_tokens=False)
    padding = smollm2.vocab_size + 5
    assert smollm2.decode([padding, *ids, padding], skip_special_tokens=False) == "Hi there"
    assert not smollm2.is_special(padding)


@settings(max_examples=300, deadline=None)
@given(text=st.text(alphabet=st.characters(exclude_categories=("Cs", "Cc"))))
def test_decoding_gives_the_text_back(smollm2: Tokenizer, gemma3: Tokenizer, text: str) -> None:
    # SentencePiece writes U+2581 for a space and cannot tell the two apart.
    told = text.replace("\u2581", " ")
    assert gemma3.decode(gemma3.encode(text, add_special_tokens=False)) == told
    # SmolLM2 has no tokens for the bytes F1 and F2, with which characters from U+40000 on begin.
    known = "".join(character for character in text if ord(character) < 0x40000)
    assert smollm2.decode(smollm2.encode(known, add_special_tokens=False)) == known


@pytest.mark.parametrize("unit", ["a", " ", "🎉", "\n", "<", "1", "\u0301"])
def test_50000_equal_characters_are_decided_at_once(
    smollm2: Tokenizer, gemma3: Tokenizer, unit: str
) -> None:
    for tokenizer in (smollm2, gemma3):
        for text in (unit * 50_000, unit * 50_000 + "x"):
            start = time.thread_time()
            tokenizer.encode(text, add_special_tokens=True, parse_special=True)
            assert time.thread_time() - start < 5  # quadratic would take minutes


def test_gemma3_loads_in_seconds(gemma3_path: Path) -> None:
    metadata = GGUFFile.open(gemma3_path).metadata
    start = time.thread_time()
    Tokenizer.from_gguf(metadata)
    assert time.thread_time() - start < 15  # one to three, by machine


def test_lone_surrogates_become_replacement_characters(smollm2: Tokenizer) -> None:
    ids = smollm2.encode("a\ud83d b", add_special_tokens=False)
    assert smollm2.decode(ids) == "a\ufffd b"


def test_sentencepiece_space_prefix_is_added_and_taken_off() -> None:
    tokenizer = Tokenizer.from_gguf(sentencepiece_metadata())
    ids = tokenizer.encode("hello hello", add_special_tokens=True)
    assert [tokenizer.token_bytes(id_) for id_ in ids] == [b"<s>", b" hello", b" hello"]
    assert tokenizer.decode(ids) == "hello hello"
    without = {**sentencepiece_metadata(), "tokenizer.ggml.add_space_prefix": False}
    ids = Tokenizer.from_gguf(without).encode(" hello", add_special_tokens=False)
    assert Tokenizer.from_gguf(without).decode(ids) == " hello"


@pytest.mark.parametrize(
    "text", ["hello", " hello", "  hello", "a<0x0A>b", "é🎉", "", "hellohello"]
)
def test_sentencepiece_text_comes_back(text: str) -> None:
    tokenizer = Tokenizer.from_gguf(sentencepiece_metadata())
    assert tokenizer.decode(tokenizer.encode(text, add_special_tokens=False)) == text


@pytest.mark.parametrize("pre", sorted(SPLIT_RULES))
def test_every_split_rule_compiles_and_loses_nothing(pre: str) -> None:
    tokenizer = Tokenizer.from_gguf(byte_level_metadata(pre=pre))
    text = "Hello, it's   naïve\n\n 日本 1234 x\u0301 /path $+~ \r\n  end  "
    assert tokenizer.decode(tokenizer.encode(text, add_special_tokens=False)) == text


def test_user_defined_markers_are_parsed_like_control_tokens_but_shown() -> None:
    tokenizer = Tokenizer.from_gguf(byte_level_metadata())
    ids = tokenizer.encode("<tool> <stop>", add_special_tokens=False, parse_special=True)
    assert tokenizer.decode(ids) == "<tool> "
    assert tokenizer.decode(ids, skip_special_tokens=False) == "<tool> <stop>"
    assert len(ids) == 3
    assert len(tokenizer.encode("<tool>", add_special_tokens=False)) == 6


BROKEN: dict[str, tuple[dict[str, object], str]] = {
    "no model": ({"tokenizer.ggml.model": None}, "model is missing; a string"),
    "other model": ({"tokenizer.ggml.model": "bert"}, "model is 'bert'; one of gpt2, llama"),
    "no tokens": ({"tokenizer.ggml.tokens": None}, "tokens is missing"),
    "empty tokens": ({"tokenizer.ggml.tokens": PackedTexts.pack([])}, "tokens is 0 strings"),
    "numeric tokens": ({"tokenizer.ggml.tokens": np.zeros(3)}, "tokens is an array of 3"),
    "types too short": ({"tokenizer.ggml.token_type": np.ones(3, np.int32)}, "an array of 3"),
    "type 9": ({"tokenizer.ggml.token_type": np.full(260, 9, np.int32)}, "9 at 0; 1 to 6"),
    "types are real": ({"tokenizer.ggml.token_type": np.ones(260)}, "finite int32 values"),
    "eos outside": ({"tokenizer.ggml.eos_token_id": 260}, "eos_token_id is 260; a token id below"),
    "eos negative": ({"tokenizer.ggml.eos_token_id": -1}, "eos_token_id is -1"),
    "eos text": ({"tokenizer.ggml.eos_token_id": "x"}, "eos_token_id is a str"),
    "unknown pre": ({"tokenizer.ggml.pre": "new"}, "pre is 'new', which is not known; known: def"),
    "no merges": ({"tokenizer.ggml.merges": None}, "merges is missing or empty"),
    "odd merge": (
        {"tokenizer.ggml.merges": PackedTexts.pack(["ab"])},
        r"merges\[0\] is 'ab'",
    ),
    "merge of strangers": (
        {"tokenizer.ggml.merges": PackedTexts.pack(["xx yy"])},
        "merges: .*xx",
    ),
    "add_bos text": ({"tokenizer.ggml.add_bos_token": "yes"}, "add_bos_token is a str; true or"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_metadata_is_refused_by_key(name: str) -> None:
    changes, message = BROKEN[name]
    metadata = {**byte_level_metadata(), **changes}
    with pytest.raises(TokenizerError, match=message) as caught:
        Tokenizer.from_gguf(metadata, source="m.gguf")
    assert str(caught.value).startswith("m.gguf: ")
    assert "\n" not in str(caught.value)


def test_sentencepiece_without_scores_or_bytes_is_refused() -> None:
    with pytest.raises(TokenizerError, match="scores is missing"):
        Tokenizer.from_gguf({**sentencepiece_metadata(), "tokenizer.ggml.scores": None})
    types = sentencepiece_metadata()["tokenizer.ggml.token_type"]
    assert isinstance(types, np.ndarray)
    fewer = np.where(np.arange(len(types)) == 10, 1, types).astype(np.int32)
    metadata = {**sentencepiece_metadata(), "tokenizer.ggml.token_type": fewer}
    metadata["tokenizer.ggml.unknown_token_id"] = None
    with pytest.raises(TokenizerError, match="255 of 256 byte tokens"):
        Tokenizer.from_gguf(metadata)


def test_the_tokens_that_fill_a_gap_are_found_by_their_spelling(
    qwen05: Tokenizer, gemma3: Tokenizer
) -> None:
    assert qwen05.fim_token_ids is not None
    spelled = [qwen05.token_text(token_id) for token_id in qwen05.fim_token_ids]
    assert spelled == ["<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"]
    assert gemma3.fim_token_ids is None


def test_the_tokens_that_fill_a_gap_may_be_named_by_the_file() -> None:
    metadata = byte_level_metadata()
    assert Tokenizer.from_gguf(metadata).fim_token_ids is None
    for name, token_id in (("pre", 3), ("suf", 4), ("mid", 5)):
        metadata[f"tokenizer.ggml.fim_{name}_token_id"] = token_id
    assert Tokenizer.from_gguf(metadata).fim_token_ids == (3, 4, 5)
