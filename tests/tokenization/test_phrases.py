"""How texts that must not be said, or that end repetitions, become token ids."""

from __future__ import annotations

import pytest

from octavo.tokenization.phrases import Phrases
from octavo.tokenization.tokenizer import Tokenizer


def test_a_bad_word_is_spelled_with_and_without_a_space(smollm2: Tokenizer) -> None:
    bare, spaced = Phrases(smollm2).words(["  house"])
    assert smollm2.decode(bare) == "house"
    assert smollm2.decode(spaced) == " house"


def test_a_spelling_of_other_length_or_the_same_beginning_is_left_out(smollm2: Tokenizer) -> None:
    """vLLM's rule."""

    def ids(text: str) -> list[int]:
        return smollm2.encode(text, add_special_tokens=False)

    word = next(w for w in ("xylophone", "qwertz", "Zzyzx") if len(ids(w)) != len(ids(" " + w)))
    assert Phrases(smollm2).words([word]) == [ids(word)]


def test_a_breaker_is_every_token_that_holds_it_and_every_way_to_begin_it(
    smollm2: Tokenizer,
) -> None:
    found = Phrases(smollm2).breakers(["):", "\n"])
    assert found == sorted(found)
    holding = {
        i
        for i in range(smollm2.vocab_size)
        if b"):" in smollm2.token_bytes(i) or b"\n" in smollm2.token_bytes(i)
    }
    assert {ids[0] for ids in found if len(ids) == 1} == holding
    tail = smollm2.encode(":", add_special_tokens=False)
    ending = {i for i in range(smollm2.vocab_size) if smollm2.token_bytes(i).endswith(b")")}
    assert {ids[0] for ids in found if len(ids) > 1} == ending
    assert all(ids[1:] == tail for ids in found if len(ids) > 1)


def test_breakers_may_be_any_text(smollm2: Tokenizer) -> None:
    phrases = Phrases(smollm2)
    text = "caf\u00e9\U0001f600"
    for ids in phrases.breakers([text]):
        said = b"".join(map(smollm2.token_bytes, ids))
        assert text.encode() in said
    assert phrases.breakers([]) == []
    assert phrases.breakers([text]) == phrases.breakers([text, text])


@pytest.mark.parametrize("text", ["a", "ab"])
def test_breakers_do_not_cross_tokens(smollm2: Tokenizer, text: str) -> None:
    """Bytes of neighbours in the vocabulary are not taken for one token's."""
    alone = [ids[0] for ids in Phrases(smollm2).breakers([text]) if len(ids) == 1]
    assert all(text.encode() in smollm2.token_bytes(i) for i in alone)
