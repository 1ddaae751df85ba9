"""What "auto" and None mean on this machine, for this model: values, each with its reason.

Pure arithmetic on given facts; reads neither the model file nor the machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace

from octavo.config.engine import EngineConfig
from octavo.config.machine import Machine
from octavo.core.model_config import ModelConfig
from octavo.core.page_plan import PagePlan, plan_pages
from octavo.core.sequence import PAGE_TOKENS
from octavo.errors import ConfigError

DEFAULT_MAX_MODEL_LEN = 8192
MODERATE_CONTEXT_TOKENS = 512
"""Tokens per running sequence that the default key/value memory has room for."""

KV_SHARE = 0.25
"""The default key/value memory takes at most this share of the memory."""
SWAP_DIVISOR = 2
"""The default swap space is this part of the key/value memory."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """`config` has no "auto" and no None left where a value is needed. `reasons` by field name."""

    config: EngineConfig
    reasons: Mapping[str, str]


def resolve(
    config: EngineConfig, model: ModelConfig, machine: Machine, isa_levels: tuple[str, ...]
) -> Resolved:
    """Decide what the user left open. `isa_levels` are those of this machine, fastest first.

    Raises ConfigError when an option cannot be honoured.
    """
    decisions = {
        "threads": _threads(config, machine),
        "isa": _isa(config, isa_levels),
        "kv_cache_dtype": _kv_cache_dtype(config),
        "pooling_type": _pooling_type(config, model),
    }
    kv_dtype = str(decisions["kv_cache_dtype"][0])
    if config.kv_cache_memory is not None and config.kv_cache_memory > machine.memory_bytes:
        raise ConfigError(
            f"--kv-cache-memory is {config.kv_cache_memory} bytes; this machine has"
            f" {machine.memory_bytes}"
        )
    affordable_bytes = int(machine.memory_bytes * KV_SHARE)

    def plan_for(max_model_len: int) -> PagePlan:
        return plan_pages(model, kv_dtype, max_model_len, config.max_num_batched_tokens)

    decisions["max_model_len"] = _max_model_len(config, model, plan_for, affordable_bytes)
    max_model_len = int(decisions["max_model_len"][0])
    context_bytes = plan_for(max_model_len).sequence_bytes(max_model_len)
    token_bytes = model.kv_bytes_per_token(kv_dtype)
    decisions["kv_cache_memory"] = _kv_cache_memory(
        config, token_bytes, context_bytes, affordable_bytes
    )
    kv_cache_bytes = int(decisions["kv_cache_memory"][0])
    decisions["swap_space"] = _swap_space(config, kv_cache_bytes, machine)
    reasons = dict.fromkeys((item.name for item in fields(config)), "given or default")
    reasons |= {name: reason for name, (_, reason) in decisions.items()}
    values = {name: value for name, (value, _) in decisions.items()}
    return Resolved(replace(config, **values), reasons)  # type: ignore[arg-type]


Decision = tuple[int | str, str]
"""A value and the reason for it."""


def _threads(config: EngineConfig, machine: Machine) -> Decision:
    if config.threads is not None:
        return config.threads, "given"
    return machine.num_cores, f"{machine.num_cores} physical cores may be used"


def _isa(config: EngineConfig, levels: tuple[str, ...]) -> Decision:
    if config.isa == "auto":
        return levels[0], f"the fastest of {', '.join(levels)}"
    if config.isa not in levels:
        raise ConfigError(
            f"--isa is {config.isa!r}; this machine and build have {', '.join(levels)}"
        )
    return config.isa, "given"


def _kv_cache_dtype(config: EngineConfig) -> Decision:
    if config.kv_cache_dtype == "int8_per_token_head":
        return "int8", "given by vLLM's name, int8_per_token_head"
    if config.kv_cache_dtype != "auto":
        return config.kv_cache_dtype, "given"
    if config.dtype == "float32":
        return "float32", "--dtype float32 asks for full precision"
    return "int16", "half the memory of float32, as precise as float16, and computed with faster"


def _pooling_type(config: EngineConfig, model: ModelConfig) -> Decision:
    pooler = config.pooler
    if pooler.dimensions is not None and pooler.dimensions > model.hidden_size:
        raise ConfigError(
            f"the pooler config has dimensions {pooler.dimensions}; the model's embeddings have"
            f" {model.hidden_size}"
        )
    if config.pooling_type != "auto":
        return config.pooling_type, "given"
    if pooler.pooling_type is not None:
        return pooler.pooling_type, "given with the pooler config"
    if model.pooling_type:
        return model.pooling_type, "as the model's file says"
    return "last", "vLLM's default; the file says nothing"


def _max_model_len(
    config: EngineConfig,
    model: ModelConfig,
    plan_for: Callable[[int], PagePlan],
    affordable_bytes: int,
) -> Decision:
    own = model.max_context_tokens
    if config.max_model_len is not None:
        if config.max_model_len > own:
            raise ConfigError(
                f"--max-model-len is {config.max_model_len}; the model was made for at most {own}"
            )
        return config.max_model_len, "given"
    if own <= DEFAULT_MAX_MODEL_LEN:
        length, reason = own, "the model's own"
    else:
        length, reason = DEFAULT_MAX_MODEL_LEN, f"the default limit; the model's own is {own}"
    limit_bytes = config.kv_cache_memory or affordable_bytes
    while (fitting := plan_for(length).max_tokens(limit_bytes, length)) < length:
        if fitting == 0:
            raise ConfigError(
                f"{limit_bytes} bytes of key/value memory hold no page of {PAGE_TOKENS} tokens"
                f" ({plan_for(length).sequence_bytes(1)} bytes); raise --kv-cache-memory"
            )
        length, reason = fitting, f"what {limit_bytes >> 20} MiB of key/value memory hold"
    return length, reason


def _kv_cache_memory(
    config: EngineConfig, token_bytes: int, context_bytes: int, affordable_bytes: int
) -> Decision:
    if config.kv_cache_memory is not None:
        if config.kv_cache_memory < context_bytes:
            raise ConfigError(
                f"--kv-cache-memory is {config.kv_cache_memory} bytes and one sequence of"
                f" --max-model-len needs {context_bytes}; raise the one or lower the other"
            )
        return config.kv_cache_memory, "given"
    wished = _page_multiple(config.max_num_seqs * MODERATE_CONTEXT_TOKENS, token_bytes)
    if wished > max(affordable_bytes, context_bytes):
        size = max(affordable_bytes, context_bytes)
        return size, f"{KV_SHARE:.0%} of the memory, or one full context"
    if wished < context_bytes:
        return context_bytes, "one full context"
    return wished, (
        f"{MODERATE_CONTEXT_TOKENS} tokens for each of {config.max_num_seqs} sequences,"
        f" {token_bytes} bytes a token"
    )


def _swap_space(config: EngineConfig, kv_cache_bytes: int, machine: Machine) -> Decision:
    """Copying a page takes a thousandth of the time of computing it; but the swap space competes
    with the pages themselves for the machine's memory, so it stays the smaller of the two."""
    if config.swap_space is not None:
        if not config.swap_dir and config.swap_space > machine.memory_bytes:
            raise ConfigError(
                f"--swap-space is {config.swap_space} bytes; this machine has"
                f" {machine.memory_bytes} (with --swap-dir it would be a file)"
            )
        return config.swap_space, "given"
    return kv_cache_bytes // SWAP_DIVISOR, "half of --kv-cache-memory; taken when it is needed"


def _page_multiple(num_tokens: int, token_bytes: int) -> int:
    """Bytes of the whole pages that `num_tokens` tokens take."""
    return -(-num_tokens // PAGE_TOKENS) * PAGE_TOKENS * token_bytes
