"""One sequence's place in its grammar: which tokens may come next, and which must.

Fails closed: once something is wrong `error` says so, and no mask allows anything.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from llguidance import LLMatcher

from octavo.structured.limits import parser_limits
from octavo.structured.vocabulary import GrammarVocabulary


class GrammarMatcher:
    """Not thread-safe; different matchers may be used by different threads."""

    def __init__(self, vocabulary: GrammarVocabulary, matcher: LLMatcher) -> None:
        self._vocabulary = vocabulary
        self._matcher = matcher

    @classmethod
    def compile(cls, vocabulary: GrammarVocabulary, grammar: str) -> GrammarMatcher:
        """At the beginning of `grammar`, which is what `structured.compiler` returned."""
        matcher = LLMatcher(vocabulary.tokenizer, grammar, log_level=0, limits=parser_limits())
        return cls(vocabulary, matcher)

    def copy(self) -> GrammarMatcher:
        """Another one at the same place. They share what the lexer has learnt."""
        return GrammarMatcher(self._vocabulary, self._matcher.deep_copy())

    @property
    def error(self) -> str:
        """Why nothing can come any more; "" if all is well."""
        return str(self._matcher.get_error())

    @property
    def is_complete(self) -> bool:
        """Whether the text is whole and cannot go on."""
        return bool(self._matcher.is_stopped()) and not self.error

    @property
    def may_end(self) -> bool:
        """Whether the text is whole as it is."""
        return bool(self._matcher.is_accepting())

    def fill_mask(self, words: npt.NDArray[np.uint32]) -> None:
        """Write the tokens that may come next into `words`, contiguous [num_mask_words]. Among them
        are the model's stop tokens where the text may end. Releases the GIL."""
        assert words.flags.c_contiguous
        assert 32 * words.size >= self._vocabulary.vocab_size
        self._matcher.unsafe_compute_mask_ptr(words.ctypes.data, words.nbytes)
        if self.error:
            words[:] = 0

    def accept(self, token_ids: Sequence[int]) -> bool:
        """Go on by these. False, with `error` set, if the grammar does not allow one of them."""
        return bool(self._matcher.consume_tokens(list(token_ids)))

    def roll_back(self, num_tokens: int) -> bool:
        """Take the last tokens back. False if there are not so many."""
        return bool(self._matcher.rollback(num_tokens))

    def forced_tokens(self) -> list[int]:
        """Tokens that must come next, as the model would have split them; they are not accepted
        yet. None where the next byte is open, or nobody can tokenise."""
        if not self._vocabulary.can_encode or self._matcher.is_stopped():
            return []
        return list(self._matcher.compute_ff_tokens())
