"""How many pages fit the key/value memory. Pure arithmetic."""

from __future__ import annotations

from octavo.core.page_plan import PagePlan
from octavo.errors import ConfigError


def num_pages_for(plan: PagePlan, kv_cache_memory: int, max_model_len: int) -> int:
    """Raises `ConfigError` if one sequence of full length would not fit."""
    size = plan.page_bytes
    num_pages = kv_cache_memory // size
    needed = plan.sequence_bytes(max_model_len) // size
    if num_pages < needed:
        raise ConfigError(
            f"--kv-cache-memory is {kv_cache_memory} bytes, {num_pages} pages of {size} bytes; "
            f"one sequence of --max-model-len {max_model_len} needs {needed} pages "
            f"({needed * size} bytes)"
        )
    return num_pages
