"""The names that tensors have in our code: those of the GGUF specification. Knows no shapes."""

from __future__ import annotations

TOKEN_EMBEDDING = "token_embd.weight"
OUTPUT_NORM = "output_norm.weight"
OUTPUT = "output.weight"
ROPE_FACTORS = "rope_freqs.weight"


def block_weight(layer: int, part: str) -> str:
    return f"blk.{layer}.{part}.weight"


def block_bias(layer: int, part: str) -> str:
    return f"blk.{layer}.{part}.bias"
