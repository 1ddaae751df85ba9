"""A model's tokens as the grammar library takes them.

Knows no grammar. Text is tokenised here for one reason: bytes that a grammar forces become the
tokens that the model would have written them with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from typing import Protocol

from llguidance import LLTokenizer, TokenizerWrapper

Encode = Callable[[str], list[int]]
"""Plain text to ids, nothing added: no BOS, no space at the beginning, no control token."""


class TokenTable(Protocol):
    """The part of a `TokenDecoder` that grammars need."""

    @property
    def vocab_size(self) -> int: ...

    @property
    def stop_token_ids(self) -> Set[int]: ...

    def token_bytes(self, token_id: int) -> bytes: ...

    def is_special(self, token_id: int) -> bool: ...


class _Wrapped:
    """What `TokenizerWrapper` reads. Without `encode`, nothing is ever tokenised."""

    def __init__(
        self, tokens: Sequence[bytes], special_ids: Sequence[int], end: int, encode: Encode | None
    ) -> None:
        self.tokens = tokens
        self.special_token_ids = special_ids
        self.eos_token_id = end
        self.bos_token_id: int | None = None
        self._encode = encode

    def __call__(self, text: str | bytes) -> list[int]:
        if isinstance(text, bytes):
            raise TypeError("text is tokenised, not bytes")  # the wrapper finds out by this
        return [] if self._encode is None else self._encode(text)


class GrammarVocabulary:
    """`vocab_size` rows of the model's embedding; those without a spelling are never allowed.
    `can_encode` is whether forced bytes can become tokens. Some 0.2 s for 150,000 tokens."""

    def __init__(self, decoder: TokenTable, vocab_size: int, encode: Encode | None) -> None:
        self.vocab_size = vocab_size
        self.can_encode = encode is not None
        special = [i for i in range(decoder.vocab_size) if decoder.is_special(i)]
        ends = sorted(decoder.stop_token_ids)
        tokens = [
            decoder.token_bytes(i) if i < decoder.vocab_size else b"" for i in range(vocab_size)
        ]
        wrapper = TokenizerWrapper(_Wrapped(tokens, special, ends[0] if ends else 0, encode))
        self.tokenizer = LLTokenizer(wrapper, n_vocab=vocab_size, eos_token=ends or None)
