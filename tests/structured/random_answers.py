"""A model that draws at random from what a grammar allows: it tries everything, ends seldom, and
makes no sense. What holds for it holds for every model.
"""

from __future__ import annotations

import random
from typing import Final

import numpy as np

from octavo.sampling.masks import num_mask_words
from octavo.structured.matcher import GrammarMatcher
from octavo.structured.vocabulary import GrammarVocabulary
from tests.fakes import EOS

CLOSERS: Final = frozenset(b'"}]') | {EOS}
STRUCTURE: Final = frozenset(b'"}],:\\-.eE0123456789')
LETTERS: Final = frozenset(b"abcdef")
EAGER_TOKENS: Final = 120
"""After so many, what ends something is likely."""
MAX_TOKENS: Final = 400


def random_answer(
    vocabulary: GrammarVocabulary, matcher: GrammarMatcher, seed: int, hints: str
) -> str | None:
    """The text that `matcher` let through, None if it did not end. Characters of `hints` are likely
    at the end (of a pattern, say)."""
    rng, told = random.Random(seed), frozenset(hints.encode())
    words = np.zeros(num_mask_words(vocabulary.vocab_size), np.uint32)
    answer: list[int] = []
    while not matcher.is_complete:
        matcher.fill_mask(words)
        allowed = np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little")).tolist()
        assert allowed, matcher.error
        if len(answer) == MAX_TOKENS:
            return None
        classes = (CLOSERS, STRUCTURE, LETTERS) if len(answer) < EAGER_TOKENS else (CLOSERS, told)
        token = _draw(rng, allowed, classes)
        assert matcher.accept([token]), matcher.error
        answer.append(token)
    return bytes(token for token in answer if token != EOS).decode()


def _draw(rng: random.Random, allowed: list[int], classes: tuple[frozenset[int], ...]) -> int:
    number = int(rng.random() * (len(classes) + 1))
    likely = [token for token in allowed if number < len(classes) and token in classes[number]]
    return rng.choice(likely or allowed)
