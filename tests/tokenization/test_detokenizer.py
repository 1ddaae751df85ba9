"""Streaming text: whole characters only, and joined the same as decoding everything at once."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.tokenization.detokenizer import Detokenizer
from octavo.tokenization.tokenizer import Tokenizer
from tests.tokenization.small_models import byte_level_metadata, sentencepiece_metadata


def stream(pieces: Sequence[bytes], *, strips_space: bool = False) -> list[str]:
    detokenizer = Detokenizer(lambda index: pieces[index], strips_space=strips_space)
    return [*map(detokenizer.push, range(len(pieces))), detokenizer.flush()]


any_bytes = st.one_of(
    st.binary(max_size=6),
    st.sampled_from(["é", "日", "🎉", "a", " ", "\ufffd"]).map(str.encode),
    st.sampled_from([b"\xf0", b"\x9f", b"\x8e", b"\x89", b"\xe6\x97", b"\xed\xa0\x80", b"\xc0"]),
)


@given(pieces=st.lists(any_bytes, max_size=20))
def test_stream_joined_equals_the_whole(pieces: list[bytes]) -> None:
    whole = b"".join(pieces).decode(errors="replace")
    assert "".join(stream(pieces)) == whole
    assert "".join(stream(pieces, strips_space=True)) == whole.removeprefix(" ")


@given(text=st.text(), data=st.data())
def test_valid_text_streams_without_replacement_however_it_is_cut(
    text: str, data: st.DataObject
) -> None:
    raw = text.replace("\ufffd", "").encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=8)))
    edges = [0, *cuts, len(raw)]
    pieces = [raw[a:b] for a, b in pairwise(edges)]
    assert all("\ufffd" not in piece for piece in stream(pieces))


def test_a_character_appears_with_its_last_byte() -> None:
    assert stream([b"\xf0\x9f", b"\x8e", b"\x89", b"!"]) == ["", "", "🎉", "!", ""]


def test_an_invalid_byte_becomes_one_replacement_and_the_stream_goes_on() -> None:
    assert stream([b"a", b"\xff", b"b"]) == ["a", "\ufffd", "b", ""]
    assert stream([b"\xe6\x97", b"b"]) == ["", "\ufffdb", ""]


def test_a_stream_that_ends_inside_a_character_ends_with_one_replacement() -> None:
    assert stream([b"a", b"\xf0\x9f\x8e"]) == ["a", "", "\ufffd"]


@pytest.mark.parametrize("skip", [False, True])
@given(data=st.data())
def test_stream_equals_decode_for_random_ids(skip: bool, data: st.DataObject) -> None:
    tokenizer = data.draw(st.sampled_from(TOKENIZERS))
    ids = data.draw(st.lists(st.integers(0, tokenizer.vocab_size - 1), max_size=30))
    detokenizer = tokenizer.detokenizer(skip_special_tokens=skip)
    streamed = "".join(map(detokenizer.push, ids)) + detokenizer.flush()
    shown = [id_ for id_ in ids if not (skip and tokenizer.is_special(id_))]
    whole = b"".join(map(tokenizer.token_bytes, shown)).decode(errors="replace")
    if tokenizer is TOKENIZERS[1]:
        whole = whole.removeprefix(" ")
    assert streamed == whole == tokenizer.decode(ids, skip_special_tokens=skip)


TOKENIZERS = [
    Tokenizer.from_gguf(byte_level_metadata()),
    Tokenizer.from_gguf(sentencepiece_metadata()),
]


def test_an_answer_that_continues_a_text_keeps_its_first_space() -> None:
    tokenizer = Tokenizer.from_gguf(sentencepiece_metadata())
    prompt, answer = (tokenizer.encode("hello", add_special_tokens=True) for _ in range(2))
    answer = answer[1:]
    continued = tokenizer.detokenizer(skip_special_tokens=True, preceding_id=prompt[-1])
    assert "".join(map(continued.push, answer)) == " hello"
    assert tokenizer.decode(prompt + answer) == "hello hello"


def test_an_answer_after_a_control_token_begins_a_text() -> None:
    tokenizer = Tokenizer.from_gguf(sentencepiece_metadata())
    bos, *answer = tokenizer.encode("hello", add_special_tokens=True)
    assert bos == tokenizer.bos_token_id
    begun = tokenizer.detokenizer(skip_special_tokens=True, preceding_id=bos)
    assert "".join(map(begun.push, answer)) == "hello"


def test_cost_per_token_does_not_grow_with_the_text() -> None:
    detokenizer = Detokenizer(lambda _: b"word ", strips_space=False)
    start = time.thread_time()
    for _ in range(200_000):
        detokenizer.push(0)
    assert time.thread_time() - start < 5
