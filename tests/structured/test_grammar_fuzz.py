"""Any text as a schema, regex, grammar or tag: a grammar that runs, or `InvalidRequest`. Nothing
crashes, nothing hangs, and whoever comes next is served.

What was found once stays in `corpus/`, from which new inputs are made.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.core.structured_outputs import StructuredOutputs
from octavo.errors import InvalidRequest
from octavo.sampling.masks import num_mask_words
from octavo.structured.compiler import GrammarCompiler
from octavo.structured.matcher import GrammarMatcher
from octavo.structured.task import GrammarTask
from octavo.structured.vocabulary import GrammarVocabulary
from tests.structured.vocabularies import byte_vocabulary

CORPUS: Final[dict[str, list[str]]] = {
    path.stem: json.loads(path.read_text())
    for path in sorted((Path(__file__).parent / "corpus").glob("*.json"))
}
FIELDS: Final = {"schema": "json", "lark": "grammar", "gbnf": "grammar"}
NUM_TOKENS: Final = 25
each_kind = pytest.mark.parametrize("kind", CORPUS)


@pytest.fixture(scope="module")
def compiler() -> Iterator[GrammarCompiler]:
    compiler = GrammarCompiler()
    yield compiler
    compiler.close()


@pytest.fixture(scope="module")
def vocabulary() -> GrammarVocabulary:
    return byte_vocabulary()


def texts(kind: str) -> st.SearchStrategy[str]:
    """Texts of the corpus with pieces left out and put in, and soup."""
    pieces = sorted({piece for text in CORPUS[kind] for piece in re.findall(r"\w+|\s+|.", text)})
    piece = st.sampled_from(pieces) | st.characters(codec="utf-8")
    changed = st.builds(
        lambda text, at, num_left_out, put_in: (
            text[: at % (len(text) + 1)] + put_in + text[at % (len(text) + 1) + num_left_out :]
        ),
        st.sampled_from(CORPUS[kind]),
        st.integers(0, 200),
        st.integers(0, 6),
        st.lists(piece, max_size=4).map("".join) | st.sampled_from(CORPUS[kind]),
    )
    return changed | st.lists(piece, max_size=20).map("".join)


def check(compiler: GrammarCompiler, vocabulary: GrammarVocabulary, kind: str, text: str) -> None:
    grammar, refused = None, None
    field = FIELDS.get(kind, kind)
    try:
        grammar = compiler.compile(GrammarTask(StructuredOutputs(**{field: text})))  # type: ignore[arg-type]
    except InvalidRequest as error:
        refused = error
    if grammar is not None:
        walk(vocabulary, GrammarMatcher.compile(vocabulary, grammar), len(text))
    elif refused is not None:
        assert refused.param == f"structured_outputs.{field}"
        assert refused.message


def walk(vocabulary: GrammarVocabulary, matcher: GrammarMatcher, seed: int) -> None:
    """As the engine does: a mask, a token of it, again. What breaks a limit allows nothing."""
    rng = random.Random(seed)
    words = np.zeros(num_mask_words(vocabulary.vocab_size), np.uint32)
    for _ in range(NUM_TOKENS):
        if matcher.is_complete:
            return
        matcher.fill_mask(words)
        allowed = np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little"))
        if not len(allowed):
            return
        if not matcher.accept([int(rng.choice(allowed))]):
            assert "limit" in matcher.error
            return


@each_kind
def test_the_corpus_is_answered(
    compiler: GrammarCompiler, vocabulary: GrammarVocabulary, kind: str
) -> None:
    for text in CORPUS[kind]:
        check(compiler, vocabulary, kind, text)
    assert compiler.compile(GrammarTask(StructuredOutputs(regex="a+")))


@each_kind
@given(data=st.data())
def test_any_text_is_answered(
    compiler: GrammarCompiler, vocabulary: GrammarVocabulary, kind: str, data: st.DataObject
) -> None:
    check(compiler, vocabulary, kind, data.draw(texts(kind)))
