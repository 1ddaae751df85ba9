"""SentencePiece-style BPE ("llama" in GGUF): pieces with scores, spaces as U+2581, byte fallback.

Scheme: Kudo and Richardson, "SentencePiece" (2018). Control pieces are left out of the model on
purpose: no text can be merged into one.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import tokenizers
from tokenizers import models, normalizers

from octavo.errors import TokenizerError
from octavo.tokenization.spm_merges import merges_by_score
from octavo.tokenization.token_decoder import SPACE
from octavo.tokenization.vocabulary import TokenType, Vocabulary


def is_control(token_type: int) -> bool:
    """Whether a piece is matched only where control tokens are. User-defined pieces (runs of
    spaces, HTML tags) are ordinary text: SentencePiece matches them everywhere."""
    return token_type in (TokenType.CONTROL, TokenType.UNKNOWN)


def sentencepiece_tokenizer(
    vocabulary: Vocabulary, hidden: Iterable[int], *, adds_space_prefix: bool
) -> tokenizers.Tokenizer:
    """Encodes plain text. Pieces of the ids `hidden` cannot come out.

    With `adds_space_prefix` every text is read as if a space stood before it.
    """
    pieces = list(vocabulary.tokens)
    for id_ in vocabulary.ids_of(TokenType.USER_DEFINED):
        pieces[id_] = _spelled(pieces[id_])
    ids = {piece: id_ for id_, piece in enumerate(pieces)}
    for id_ in hidden:
        ids.pop(pieces[id_], None)
    unknown = _unknown_piece(vocabulary)
    if unknown is not None:
        ids[unknown] = pieces.index(unknown)
    try:
        model = models.BPE(
            ids, _merges(vocabulary, pieces), unk_token=unknown, fuse_unk=True, byte_fallback=True
        )
    except Exception as error:  # the library raises nothing more precise
        raise TokenizerError(f"{vocabulary.source}: tokenizer.ggml.tokens: {error}") from None
    tokenizer = tokenizers.Tokenizer(model)
    spaces = normalizers.Replace(" ", SPACE)
    tokenizer.normalizer = (
        normalizers.Sequence([normalizers.Prepend(SPACE), spaces]) if adds_space_prefix else spaces
    )
    tokenizer.add_tokens(
        [
            tokenizers.AddedToken(pieces[id_], normalized=False, special=False)
            for id_ in vocabulary.ids_of(TokenType.USER_DEFINED)
            if pieces[id_].strip(SPACE)
        ]
    )
    return tokenizer


def _spelled(piece: str) -> str:
    """Files spell user-defined runs of spaces with spaces; the model sees U+2581."""
    return SPACE * len(piece) if piece and not piece.strip(" ") else piece


def _unknown_piece(vocabulary: Vocabulary) -> str | None:
    """What stands for a character without a piece. Not needed where every byte has one."""
    byte_pieces = {vocabulary.tokens[id_] for id_ in vocabulary.ids_of(TokenType.BYTE)}
    expected = {f"<0x{byte:02X}>" for byte in range(256)}
    if not byte_pieces <= expected:
        odd = sorted(byte_pieces - expected)[0]
        raise TokenizerError(
            f"{vocabulary.source}: the byte token {odd!r:.40} is not spelled <0x00> to <0xFF>"
        )
    if byte_pieces == expected:
        return None
    if vocabulary.unknown_token_id is None:
        raise TokenizerError(
            f"{vocabulary.source}: the vocabulary has {len(byte_pieces)} of 256 byte tokens and "
            "no tokenizer.ggml.unknown_token_id"
        )
    return vocabulary.tokens[vocabulary.unknown_token_id]


def _merges(vocabulary: Vocabulary, pieces: list[str]) -> list[tuple[str, str]]:
    """The file's merges, or all that its scores imply. User-defined pieces come before all others,
    as SentencePiece finds them before it merges anything."""
    if vocabulary.merges:
        parts = (merge.partition(" ") for merge in vocabulary.merges)
        return [(left, right) for left, _, right in parts]
    if vocabulary.scores is None:
        raise TokenizerError(
            f"{vocabulary.source}: tokenizer.ggml.scores is missing, and so is .merges"
        )
    user_defined = vocabulary.types == TokenType.USER_DEFINED
    scores = vocabulary.scores.astype(np.float64)
    scores[user_defined] = np.inf
    results = user_defined | (vocabulary.types == TokenType.NORMAL)
    return merges_by_score(pieces, results, scores)
