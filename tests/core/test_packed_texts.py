"""Texts come out as they went in."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from octavo.core.packed_texts import PackedTexts

ANY_TEXT = st.text(max_size=8)


@given(st.lists(ANY_TEXT, max_size=20))
@example(["", "", "a", ""])
@example(["<|im_end|>", "\u0120hello", "日本", "🎉", "ÿ", "\0", "\n"])
def test_every_text_comes_out_as_it_went_in(texts: list[str]) -> None:
    packed = PackedTexts.pack(texts)
    assert len(packed) == len(texts)
    assert [packed[index] for index in range(len(texts))] == texts
    assert list(packed) == texts


@pytest.mark.parametrize("texts", [[], ["a"], ["", "bc"]])
def test_there_is_no_text_outside(texts: list[str]) -> None:
    packed = PackedTexts.pack(texts)
    for index in (-1, len(texts)):
        with pytest.raises(IndexError, match=f"no text {index}"):
            packed[index]
