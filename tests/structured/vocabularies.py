"""A vocabulary of bytes, so that a token is a character of the text."""

from __future__ import annotations

from octavo.structured.vocabulary import GrammarVocabulary
from tests.fakes import ByteTokenizer


def byte_vocabulary(*, can_encode: bool = True) -> GrammarVocabulary:
    tokenizer = ByteTokenizer()
    encode = (lambda text: list(text.encode())) if can_encode else None
    return GrammarVocabulary(tokenizer, tokenizer.vocab_size, encode)
