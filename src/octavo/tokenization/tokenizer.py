"""Text to token ids and back, as the model file defines it. Knows no request and no template.

Plain text goes through the `tokenizers` library, with a model that does not contain the control
tokens: whatever a user writes, no control id comes out, unless the caller asks for their spellings
to be parsed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import tokenizers

from octavo.tokenization import byte_level, sentencepiece
from octavo.tokenization.detokenizer import Detokenizer
from octavo.tokenization.spellings import Spellings
from octavo.tokenization.vocabulary import TokenType, Vocabulary


class Tokenizer:
    """Thread-safe after construction. `stop_token_ids` end an answer.

    `controls` are the spellings of control tokens; `markers` also those of user-defined tokens
    that are parsed only where control tokens are.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._tokens = vocabulary.tokens
        self._types: list[int] = vocabulary.types.tolist()
        self._is_byte_level = vocabulary.model == "gpt2"
        self.vocab_size = len(vocabulary.tokens)
        self.bos_token_id = vocabulary.bos_token_id
        self.eos_token_id = vocabulary.eos_token_id
        self.stop_token_ids = vocabulary.stop_token_ids
        self.adds_bos = vocabulary.bos_token_id is not None and _adds_bos(vocabulary)
        self._adds_eos = vocabulary.eos_token_id is not None and vocabulary.adds_eos is True
        self._adds_space_prefix = (
            not self._is_byte_level and vocabulary.adds_space_prefix is not False
        )
        candidates = vocabulary.ids_of(TokenType.CONTROL, TokenType.UNKNOWN, TokenType.USER_DEFINED)
        marker_ids = list(filter(self._is_marker, candidates))
        self.markers = self._spellings(marker_ids)
        self.controls = self._spellings(filter(self.is_special, marker_ids))
        self._plain = self._plain_tokenizer(vocabulary, marker_ids)

    @classmethod
    def from_gguf(cls, metadata: Mapping[str, object], source: object = "model file") -> Tokenizer:
        """Raises `TokenizerError`, naming `source`, if the metadata is missing or inconsistent."""
        return cls(Vocabulary.from_gguf(metadata, source))

    def encode(
        self, text: str, *, add_special_tokens: bool = True, parse_special: bool = False
    ) -> list[int]:
        """Token ids. `add_special_tokens` adds BOS and EOS where the file says so; there is never
        a second BOS. Without `parse_special` spellings of control tokens are plain text."""
        parts = self.markers.split(text) if parse_special else (text,)
        ids = self.encode_parts(parts)
        if not add_special_tokens:
            return ids
        if self.adds_bos and self.bos_token_id is not None and ids[:1] != [self.bos_token_id]:
            ids.insert(0, self.bos_token_id)
        if self._adds_eos and self.eos_token_id is not None and ids[-1:] != [self.eos_token_id]:
            ids.append(self.eos_token_id)
        return ids

    def encode_parts(self, parts: Iterable[str | int]) -> list[int]:
        """Ids of parts that are plain text or already a token id. No id is added or parsed."""
        ids: list[int] = []
        for part in parts:
            if isinstance(part, int):
                ids.append(part)
            elif part:
                ids.extend(self._plain.encode(_valid(part), add_special_tokens=False).ids)
        return ids

    def decode(self, ids: Iterable[int], *, skip_special_tokens: bool = True) -> str:
        """The text of all ids at once; invalid UTF-8 becomes U+FFFD."""
        detokenizer = self.detokenizer(skip_special_tokens=skip_special_tokens)
        return "".join(map(detokenizer.push, ids)) + detokenizer.flush()

    def detokenizer(
        self, *, skip_special_tokens: bool, preceding_id: int | None = None
    ) -> Detokenizer:
        """For the tokens after `preceding_id`: where that is text, theirs continues it, and a space
        at its beginning is a space. Where a text begins, encoding may have added it."""
        visible = self._visible_bytes if skip_special_tokens else self.token_bytes
        begins_text = preceding_id is None or self.is_special(preceding_id)
        return Detokenizer(visible, strips_space=self._adds_space_prefix and begins_text)

    def token_bytes(self, token_id: int) -> bytes:
        """Exactly the bytes that this token adds to a text: none for the id of a padding row of
        the embedding, which lies at or above `vocab_size`."""
        if token_id >= self.vocab_size:
            return b""
        token, token_type = self._tokens[token_id], self._types[token_id]
        if not self._is_byte_level:
            return sentencepiece.piece_bytes(token, token_type)
        if token_type in (TokenType.NORMAL, TokenType.UNUSED, TokenType.BYTE):
            return byte_level.spelled_bytes(token)
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

    def _visible_bytes(self, token_id: int) -> bytes:
        return b"" if self.is_special(token_id) else self.token_bytes(token_id)

    def _is_marker(self, token_id: int) -> bool:
        token_type = self._types[token_id]
        if self._is_byte_level:
            return byte_level.is_marker(self._tokens[token_id], token_type)
        return sentencepiece.is_control(token_type)

    def _spellings(self, token_ids: Iterable[int]) -> Spellings:
        return Spellings({self._tokens[id_]: id_ for id_ in token_ids})

    def _plain_tokenizer(self, vocabulary: Vocabulary, hidden: list[int]) -> tokenizers.Tokenizer:
        if self._is_byte_level:
            return byte_level.byte_level_tokenizer(vocabulary, hidden)
        return sentencepiece.sentencepiece_tokenizer(
            vocabulary, hidden, adds_space_prefix=self._adds_space_prefix
        )


def _adds_bos(vocabulary: Vocabulary) -> bool:
    """As the file says, or else by the kind of vocabulary."""
    if vocabulary.adds_bos is not None:
        return vocabulary.adds_bos
    if vocabulary.model == "llama":
        return True
    return byte_level.split_rule(vocabulary).adds_bos


def _valid(text: str) -> str:
    """Lone surrogates, which JSON can spell and UTF-8 cannot, become U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
