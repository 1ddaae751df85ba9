"""Loading: from an open model file and resolved options to a runner that is ready.

Everything is checked, and the program recorded, before the first weight is packed.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from octavo.config.engine import EngineConfig
from octavo.core.model_config import ModelConfig
from octavo.core.page_plan import PagePlan, plan_pages
from octavo.kernels._native import KvCache, ThreadPool
from octavo.models.model import Model
from octavo.models.registry import model_from_gguf
from octavo.ops.compile import compile_program
from octavo.ops.program import Program
from octavo.runner.executable import ProgramExecutable
from octavo.runner.memory import num_pages_for
from octavo.runner.page_identity import page_identity
from octavo.runner.page_memory import NUM_MEASURED_PAGES, PageMemory, measure_move_seconds
from octavo.runner.pooler import HiddenPooler
from octavo.runner.runner import Runner
from octavo.runner.step import Step, StepLimits
from octavo.runner.swap_buffer import SwapBuffer
from octavo.sampling.processors.contract import ProcessorFacts
from octavo.sampling.processors.registry import load_processors
from octavo.sampling.sampler import Sampler
from octavo.weights.gguf import GGUFFile
from octavo.weights.loader import (
    LoadedWeights,
    Progress,
    check_quantization,
    check_weights,
    held_format,
    is_integer_format,
    load_weights,
)
from octavo.weights.names import ROPE_FACTORS
from octavo.weights.weight import Weight

MIN_LOGIT_ROWS = 64
"""A step may compute so many rows of prompt log probabilities, however few sequences may run."""


def load_runner(
    file: GGUFFile,
    config: EngineConfig,
    stop_token_ids: frozenset[int],
    progress: Progress | None = None,
) -> Runner:
    """`config` has been resolved: no "auto" but for dtype, no None.

    `stop_token_ids` are the tokenizer's; they are kept out of answers that must go on.

    Raises `WeightError` for a file that cannot be run, `ConfigError` for memory that is too small,
    a quantisation that has nothing to quantise or a logits processor that cannot be loaded.
    """
    assert config.threads is not None
    model = model_from_gguf(file)
    weights = model.weights()
    check_weights(file, weights, _tensors_of_config(model.config))
    check_quantization(file, weights, config.quantization)
    program = compile_for_file(file, model, config.dtype, config.quantization)
    plan, num_pages = _pages(config, model.config)
    limits = _limits(config, plan)
    facts = ProcessorFacts(vocab_size=model.config.vocab_size, stop_token_ids=stop_token_ids)
    processors = load_processors(config.logits_processors, facts)
    pool = ThreadPool(config.threads)
    loaded = load_weights(
        file, weights, config.dtype, pool, progress, quantization=config.quantization
    )
    identity = page_identity(file, config, program, plan) if config.prefix_cache_dir else b""
    cache, pages = _page_memory(config, model.config, plan, num_pages, identity)
    step = Step(limits)
    return Runner(
        model=model.config,
        num_pages=num_pages,
        step=step,
        executable=ProgramExecutable(program, loaded, cache, pool, config.isa, step),
        pages=pages,
        pooler=HiddenPooler(_vector(loaded, model.norm), model.config.norm_eps),
        sampler=Sampler(model.config.vocab_size, pool, config.isa, processors),
        stop_token_ids=stop_token_ids,
    )


def compile_for_file(
    file: GGUFFile,
    model: Model,
    dtype: str,
    quantization: str = "none",
    *,
    fuse: bool = True,
) -> Program:
    """The program for the formats in which the file's matrices are held."""

    def is_integer(weight: Weight) -> bool:
        return is_integer_format(held_format(file, weight, dtype, quantization))

    return compile_program(model.forward, is_integer, fuse=fuse)


def _tensors_of_config(config: ModelConfig) -> tuple[str, ...]:
    """Tensors that went into the facts and are no weights of their own."""
    has_factors = any(layer.rope.factors is not None for layer in config.layers)
    return (ROPE_FACTORS,) if has_factors else ()


def _vector(loaded: LoadedWeights, weight: Weight) -> npt.NDArray[np.float32]:
    held = loaded[weight.name]
    assert isinstance(held, np.ndarray), "a norm is a vector"
    return held


def _page_memory(
    config: EngineConfig, model: ModelConfig, plan: PagePlan, num_pages: int, identity: bytes
) -> tuple[KvCache, PageMemory]:
    """The pages as kernels take them, and with their swap space."""
    layers = [(layer.num_kv_heads, layer.head_dim) for layer in model.layers]
    cache, scratch = (
        KvCache(count, layers, config.kv_cache_dtype, plan.places)
        for count in (num_pages, NUM_MEASURED_PAGES)
    )
    assert config.swap_space is not None
    num_slots = config.swap_space // cache.page_bytes
    directory = Path(config.swap_dir) if config.swap_dir else None
    swap, scratch_swap = (
        SwapBuffer(count, cache.page_bytes, directory)
        for count in (num_slots, min(num_slots, NUM_MEASURED_PAGES))
    )
    seconds = measure_move_seconds(scratch, scratch_swap)
    return cache, PageMemory(cache, swap, identity, plan.groups, seconds)


def _pages(config: EngineConfig, model: ModelConfig) -> tuple[PagePlan, int]:
    """What a page holds, and how many there are."""
    assert config.kv_cache_memory is not None
    assert config.max_model_len is not None
    plan = plan_pages(
        model, config.kv_cache_dtype, config.max_model_len, config.max_num_batched_tokens
    )
    return plan, num_pages_for(plan, config.kv_cache_memory, config.max_model_len)


def _limits(config: EngineConfig, plan: PagePlan) -> StepLimits:
    assert config.max_model_len is not None
    return StepLimits(
        max_tokens=config.max_num_batched_tokens,
        max_sequences=config.max_num_seqs,
        max_logit_rows=max(config.max_num_seqs, MIN_LOGIT_ROWS),
        max_context_tokens=config.max_model_len,
        num_page_groups=plan.groups.num,
    )
