"""The places in their grammars of all live sequences that have one.

Masks are computed in a thread of their own while the model runs; grammars are compiled in another,
so that no mask waits for one. The grammar library and the tokenizer library load with the first
request that has a grammar, unless somebody calls `preload`. Fails closed: a sequence whose grammar
breaks can draw nothing, and its next `advance` says so.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from octavo.core.schedule import ScheduledStep
from octavo.core.sequence import Sequence
from octavo.sampling.masks import TokenMasks, num_mask_words
from octavo.tokenization.vocabulary import Vocabulary
from octavo.weights.gguf import GGUFFile

if TYPE_CHECKING:
    from octavo.structured.matcher import GrammarMatcher
    from octavo.structured.vocabulary import GrammarVocabulary

logger = logging.getLogger(__name__)

LoadVocabulary = Callable[[], "GrammarVocabulary"]


class Advance(NamedTuple):
    """What follows from a drawn token: it was wrong, or `forced` tokens come after it, and with
    the last of them the text may be complete."""

    error: str = ""
    forced: tuple[int, ...] = ()
    is_complete: bool = False


class SequenceGrammars:
    """Implements `MaskSource`. `load_vocabulary` is called once, in the thread that compiles."""

    def __init__(self, vocab_size: int, load_vocabulary: LoadVocabulary) -> None:
        self._num_words = num_mask_words(vocab_size)
        self._load_vocabulary = load_vocabulary
        self._vocabulary: GrammarVocabulary | None = None
        self._compiler = ThreadPoolExecutor(1, thread_name_prefix="grammar-compiler")
        self._masker = ThreadPoolExecutor(1, thread_name_prefix="grammar-masks")
        self._matchers: dict[tuple[str, int], Future[GrammarMatcher]] = {}

    def start(self, sequences: Iterable[Sequence]) -> None:
        """Compile the grammar of one request's sequences, beside what the engine does."""
        first: Future[GrammarMatcher] | None = None
        for sequence in sequences:
            grammar = sequence.request.grammar
            if first is None:
                first = self._compiler.submit(self._compile, grammar)
                self._matchers[sequence.key] = first
            else:
                self._matchers[sequence.key] = self._compiler.submit(_copy, first)

    def preload(self) -> None:
        """Take in the vocabulary now. The library holds the interpreter's lock for a part of that,
        so that no other thread gets on: better before there is anybody to wait."""
        self._compiler.submit(self._loaded_vocabulary).result()

    def compiling(self, sequence: Sequence) -> Future[GrammarMatcher]:
        """Is done when the sequence may run; has an exception if it can never be held to its
        grammar."""
        return self._matchers[sequence.key]

    def forget(self, sequence: Sequence) -> None:
        self._matchers.pop(sequence.key, None)

    def begin(self, step: ScheduledStep) -> PendingStepMasks:
        rows = {
            scheduled.sequence.key: self._matchers[scheduled.sequence.key]
            for scheduled in step.sequences
            if scheduled.samples and scheduled.sequence.key in self._matchers
        }
        if not rows:
            return PendingStepMasks(None)
        return PendingStepMasks(self._masker.submit(self._fill, rows))

    def advance(self, sequence: Sequence, token_id: int, *, may_force: bool) -> Advance:
        """Go on by a token that was drawn under the mask; forced tokens are accepted with it."""
        matcher = _made(self._matchers[sequence.key])
        if matcher is None:
            return Advance(error="its grammar could not be compiled")
        if not matcher.accept([token_id]):
            return Advance(error=matcher.error)
        forced = matcher.forced_tokens() if may_force else []
        if forced and not matcher.accept(forced):
            return Advance(error=matcher.error)
        return Advance(forced=tuple(forced), is_complete=matcher.is_complete)

    def _compile(self, grammar: str) -> GrammarMatcher:
        from octavo.structured.matcher import GrammarMatcher

        try:
            return GrammarMatcher.compile(self._loaded_vocabulary(), grammar)
        except Exception:
            logger.exception("a grammar could not be compiled")
            raise

    def _loaded_vocabulary(self) -> GrammarVocabulary:
        if self._vocabulary is None:
            self._vocabulary = self._load_vocabulary()
        return self._vocabulary

    def _fill(self, rows: dict[tuple[str, int], Future[GrammarMatcher]]) -> TokenMasks:
        """Compiled before: their sequences run only then."""
        words = np.zeros((len(rows), self._num_words), np.uint32)
        for row, future in zip(words, rows.values(), strict=True):
            matcher = _made(future)
            if matcher is not None:
                matcher.fill_mask(row)
        return TokenMasks(words, {key: index for index, key in enumerate(rows)})


class PendingStepMasks:
    """Implements `PendingMasks`."""

    def __init__(self, future: Future[TokenMasks] | None) -> None:
        self._future = future

    def wait(self) -> TokenMasks | None:
        return None if self._future is None else self._future.result()


def load_grammar_vocabulary(path: Path, vocab_size: int) -> GrammarVocabulary:
    """Of a model file. Forced text continues a text, so no tokenizer puts a space before it."""
    from octavo.structured.vocabulary import GrammarVocabulary
    from octavo.tokenization.tokenizer import Tokenizer

    with GGUFFile.open(path) as file:
        vocabulary = Vocabulary.from_gguf(file.metadata, source=path)
    tokenizer = Tokenizer(replace(vocabulary, adds_space_prefix=False))
    return GrammarVocabulary(
        tokenizer, vocab_size, lambda text: tokenizer.encode(text, add_special_tokens=False)
    )


def _copy(first: Future[GrammarMatcher]) -> GrammarMatcher:
    return first.result().copy()


def _made(future: Future[GrammarMatcher]) -> GrammarMatcher | None:
    return None if future.exception() is not None else future.result()
