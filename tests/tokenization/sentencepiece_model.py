"""Writes a SentencePiece model from a GGUF vocabulary, so that the original library can judge ours.

The model is a protocol buffer; its few fields are written by hand. Field numbers are those of
sentencepiece_model.proto.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from sentencepiece import SentencePieceProcessor

BPE = 2
UNKNOWN = 2


def sentencepiece_bpe(
    pieces: Sequence[str],
    scores: Sequence[float],
    types: Sequence[int],
    unknown_id: int,
    *,
    add_dummy_prefix: bool,
) -> SentencePieceProcessor:
    """A BPE model with byte fallback and no normalisation."""
    body = bytearray()
    for index, (piece, score, kind) in enumerate(zip(pieces, scores, types, strict=True)):
        spelled = "\u2581" * len(piece) if piece and not piece.strip(" ") else piece
        entry = _bytes(1, spelled.encode()) + b"\x15" + struct.pack("<f", score)
        entry += _number(3, UNKNOWN if index == unknown_id else kind)
        body += _bytes(1, entry)
    trainer = _number(3, BPE) + _number(35, 1) + _number(40, unknown_id)
    trainer += _bytes(45, pieces[unknown_id].encode())
    normalizer = _bytes(1, b"identity") + _number(3, add_dummy_prefix) + _number(4, 0)
    body += _bytes(2, trainer) + _bytes(3, normalizer + _number(5, 1))
    return SentencePieceProcessor(model_proto=bytes(body))


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, data: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(data)) + data
