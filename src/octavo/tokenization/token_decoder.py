"""Token ids to the text they stand for. Needs no tokenizer library, and encodes nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Final, Self

from octavo.tokenization.detokenizer import Detokenizer
from octavo.tokenization.vocabulary import TokenType, Vocabulary

NUM_REMEMBERED_TOKENS: Final = 4096
"""A text of 25,000 tokens consists of some 3,000 different ones."""

SPACE: Final = "\u2581"
"""What SentencePiece writes for a space."""


def _byte_of_character() -> dict[str, int]:
    """Printable Latin-1 bytes stand for themselves, the others for characters from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    table = {chr(byte): byte for byte in printable}
    return table | {chr(0x100 + index): byte for index, byte in enumerate(others)}


BYTE_OF_CHARACTER: Final = MappingProxyType(_byte_of_character())


def spelled_bytes(token: str) -> bytes:
    """The bytes that a token stands for; one that is not spelled in bytes stands for itself."""
    try:
        return bytes([BYTE_OF_CHARACTER[character] for character in token])
    except KeyError:
        return token.encode()


def piece_bytes(piece: str, token_type: int) -> bytes:
    """The bytes that a piece stands for in text."""
    if token_type == TokenType.BYTE:
        return bytes([int(piece[3:5], 16)])
    if token_type in (TokenType.CONTROL, TokenType.UNKNOWN):
        return piece.encode()
    return piece.replace(SPACE, " ").encode()


class TokenDecoder:
    """Thread-safe after construction. `stop_token_ids` end an answer."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._tokens = vocabulary.tokens
        self._remembered_bytes = lru_cache(NUM_REMEMBERED_TOKENS)(self._token_bytes)
        self._types = bytes(vocabulary.types.astype("u1"))  # items of bytes are plain integers
        self._is_byte_level = vocabulary.model == "gpt2"
        self.vocab_size = len(vocabulary.tokens)
        self.stop_token_ids = vocabulary.stop_token_ids
        self._adds_space_prefix = (
            not self._is_byte_level and vocabulary.adds_space_prefix is not False
        )

    @classmethod
    def from_gguf(cls, metadata: Mapping[str, object], source: object = "model file") -> Self:
        """Raises `TokenizerError`, naming `source`, if the metadata is missing or inconsistent."""
        return cls(Vocabulary.from_gguf(metadata, source))

    def decode(self, ids: Iterable[int], *, skip_special_tokens: bool = True) -> str:
        """The text of all ids at once; invalid UTF-8 becomes U+FFFD."""
        detokenizer = self.detokenizer(skip_special_tokens=skip_special_tokens)
        return "".join(map(detokenizer.push, ids)) + detokenizer.flush()

    def detokenizer(
        self,
        *,
        skip_special_tokens: bool,
        preceding_id: int | None = None,
        shown_ids: Collection[int] = (),
    ) -> Detokenizer:
        """For the tokens after `preceding_id`: where that is text, theirs continues it, and a space
        at its beginning is a space. Where a text begins, encoding may have added it. Special tokens
        among `shown_ids` are never skipped."""
        visible = self.token_bytes
        if skip_special_tokens:
            visible = partial(self._visible_bytes, frozenset(shown_ids))
        begins_text = preceding_id is None or self.is_special(preceding_id)
        return Detokenizer(visible, strips_space=self._adds_space_prefix and begins_text)

    def token_bytes(self, token_id: int) -> bytes:
        """Exactly the bytes that this token adds to a text: none for the id of a padding row of
        the embedding, which lies at or above `vocab_size`."""
        return self._remembered_bytes(token_id) if token_id < self.vocab_size else b""

    def _token_bytes(self, token_id: int) -> bytes:
        token, token_type = self._tokens[token_id], self._types[token_id]
        if not self._is_byte_level:
            return piece_bytes(token, token_type)
        if token_type in (TokenType.NORMAL, TokenType.UNUSED, TokenType.BYTE):
            return spelled_bytes(token)
        return token.encode()

    def token_text(self, token_id: int) -> str:
        """What this token shows on its own; U+FFFD where it holds part of a character."""
        return self.token_bytes(token_id).decode(errors="replace")

    def is_special(self, token_id: int) -> bool:
        """Whether it is a control token: one that stands for no text."""
        return token_id < self.vocab_size and self._types[token_id] in (
            TokenType.CONTROL,
            TokenType.UNKNOWN,
        )

    def _visible_bytes(self, shown_ids: Collection[int], token_id: int) -> bytes:
        is_hidden = self.is_special(token_id) and token_id not in shown_ids
        return b"" if is_hidden else self.token_bytes(token_id)
