"""Texts come out as they went in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.tokenization.packed_texts import PackedTexts


@given(st.lists(st.text(st.characters(exclude_categories=())), max_size=20))
def test_every_text_comes_out_as_it_went_in(texts: list[str]) -> None:
    packed = PackedTexts(texts)
    assert len(packed) == len(texts)
    assert [packed[index] for index in range(len(texts))] == texts
    for index in (-1, len(texts)):
        with pytest.raises(IndexError):
            packed[index]
