"""Text to token ids, as the model file defines it. Knows no request and no template.

Plain text goes through the `tokenizers` library, with a model that does not contain the control
tokens: whatever a user writes, no control id comes out, unless the caller asks for their spellings
to be parsed.
"""

from __future__ import annotations

from collections.abc import Iterable

import tokenizers

from octavo.tokenization import byte_level, sentencepiece
from octavo.tokenization.spellings import Spellings
from octavo.tokenization.token_decoder import TokenDecoder
from octavo.tokenization.vocabulary import TokenType, Vocabulary


class Tokenizer(TokenDecoder):
    """Thread-safe after construction.

    `controls` are the spellings of control tokens; `markers` also those of user-defined tokens
    that are parsed only where control tokens are.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__(vocabulary)
        self.bos_token_id = vocabulary.bos_token_id
        self.eos_token_id = vocabulary.eos_token_id
        self.fim_token_ids = vocabulary.fim_token_ids
        self.adds_bos = vocabulary.bos_token_id is not None and _adds_bos(vocabulary)
        self._adds_eos = vocabulary.eos_token_id is not None and vocabulary.adds_eos is True
        candidates = vocabulary.ids_of(TokenType.CONTROL, TokenType.UNKNOWN, TokenType.USER_DEFINED)
        marker_ids = list(filter(self._is_marker, candidates))
        self.markers = self._spellings(marker_ids)
        self.controls = self._spellings(filter(self.is_special, marker_ids))
        self._plain = self._plain_tokenizer(vocabulary, marker_ids)

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
                ids.extend(self._plain_ids(_valid(part)))
        return ids

    def _plain_ids(self, text: str) -> list[int]:
        """By the library's call for batches: that one lets other threads run meanwhile, and makes
        nothing but ids."""
        (encoding,) = self._plain.encode_batch_fast([text], add_special_tokens=False)
        ids: list[int] = encoding.ids
        return ids

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
