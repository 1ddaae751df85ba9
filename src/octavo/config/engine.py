"""The engine's options, declared once. Flags, YAML keys, `LLM(...)` arguments and docs come from here.

A field's metadata carries its help text. `None` means "decide at start-up", which `config.resolve`
does, with reasons. Knows nothing of argparse, of the environment or of the server.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


def option(
    default: Any, help_text: str, *, choices: tuple[str, ...] = (), metavar: str = ""
) -> Any:
    return field(
        default=default, metadata={"help": help_text, "choices": choices, "metavar": metavar}
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    model: str = option("", "Path to a GGUF file, a catalogue name, or a hub id.")
    max_model_len: int | None = option(
        None, "Context length in tokens. Default: the model's own, at most 8192."
    )
    max_num_seqs: int = option(64, "Sequences that run at the same time.")
    max_num_batched_tokens: int = option(512, "Tokens computed in one step, at most.")
    block_size: int = option(16, "Tokens per page of key/value memory. Only 16 is supported.")
    kv_cache_memory: int | None = option(
        None,
        "Key/value memory: bytes, or a number with K, M, G. Default: by model and machine.",
        metavar="BYTES",
    )
    kv_cache_dtype: str = option(
        "auto",
        "Element type of keys and values.",
        choices=("auto", "float32", "float16", "bfloat16"),
    )
    threads: int | None = option(None, "Threads that compute. Default: the cores of this machine.")
    dtype: str = option(
        "auto",
        "How weights are held: 'auto' as the file has them, or dequantised to the named type.",
        choices=("auto", "float32", "float16", "bfloat16"),
    )
    isa: str = option(
        "auto",
        "Instruction-set level of the kernels (see `octavo inspect config`).",
        choices=("auto", "scalar", "avx2", "avx512", "avx512_vnni"),
    )
    seed: int = option(0, "Seeds the requests that give none.")
    enable_prefix_caching: bool = option(True, "Reuse the pages of equal prompt beginnings.")
