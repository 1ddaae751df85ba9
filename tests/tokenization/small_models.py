"""Small complete vocabularies in the form of GGUF metadata."""

from __future__ import annotations

import numpy as np

from octavo.core.packed_texts import PackedTexts
from octavo.tokenization.token_decoder import BYTE_OF_CHARACTER

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 2, 3, 4, 6


def byte_level_metadata(pre: str = "gpt-2") -> dict[str, object]:
    """256 bytes, one merge, <stop> (control, eos), <tool> (user-defined), <s> (control, bos)."""
    tokens = [*BYTE_OF_CHARACTER, "ab", "<stop>", "<tool>", "<s>"]
    types = [NORMAL] * 257 + [CONTROL, USER_DEFINED, CONTROL]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": PackedTexts.pack(tokens),
        "tokenizer.ggml.token_type": np.array(types, np.int32),
        "tokenizer.ggml.merges": PackedTexts.pack(["a b"]),
        "tokenizer.ggml.eos_token_id": 257,
        "tokenizer.ggml.bos_token_id": 259,
        "tokenizer.ggml.add_bos_token": True,
    }


def sentencepiece_metadata() -> dict[str, object]:
    """<unk>, <s>, </s>, 256 bytes, and the pieces that lead to " hello"."""
    pieces = ["▁", "h", "e", "l", "o", "he", "ll", "llo", "hello", "▁hello"]
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *pieces]
    types = [UNKNOWN, CONTROL, CONTROL] + [BYTE] * 256 + [NORMAL] * len(pieces)
    scores = [0.0] * 259 + [-float(index) for index in range(len(pieces))]
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": PackedTexts.pack(tokens),
        "tokenizer.ggml.token_type": np.array(types, np.int32),
        "tokenizer.ggml.scores": np.array(scores, np.float32),
        "tokenizer.ggml.unknown_token_id": 0,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
    }
