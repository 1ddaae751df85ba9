"""How many pages fit the key/value memory. Pure arithmetic."""

from __future__ import annotations

from octavo.core.model_config import ModelConfig
from octavo.core.sequence import PAGE_TOKENS
from octavo.errors import ConfigError


def page_bytes(model: ModelConfig, kv_cache_dtype: str) -> int:
    """Keys and values of one page's tokens in all layers."""
    return PAGE_TOKENS * model.kv_bytes_per_token(kv_cache_dtype)


def num_pages_for(
    model: ModelConfig, kv_cache_dtype: str, kv_cache_memory: int, max_model_len: int
) -> int:
    """Raises `ConfigError` if one sequence of full length would not fit."""
    size = page_bytes(model, kv_cache_dtype)
    num_pages = kv_cache_memory // size
    needed = -(-max_model_len // PAGE_TOKENS)
    if num_pages < needed:
        raise ConfigError(
            f"--kv-cache-memory is {kv_cache_memory} bytes, {num_pages} pages of {size} bytes; "
            f"one sequence of --max-model-len {max_model_len} needs {needed} pages "
            f"({needed * size} bytes)"
        )
    return num_pages
