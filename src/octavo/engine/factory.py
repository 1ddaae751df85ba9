"""Puts an engine together from its parts. The only place that knows all of them.

`load_front` makes what handles requests before the engine sees them, and needs no weights.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from octavo.config.engine import EngineConfig
from octavo.config.machine import this_machine
from octavo.config.resolve import Resolved, resolve
from octavo.core.model_config import ModelConfig
from octavo.engine.engine import Engine
from octavo.engine.input_processor import InputProcessor
from octavo.errors import ConfigError
from octavo.hub.find import find_model
from octavo.kernels._native import isa_levels
from octavo.kv.kv_manager import KvManager
from octavo.models.registry import model_from_gguf
from octavo.runner.load import load_runner
from octavo.runner.runner import Runner
from octavo.scheduler.config import SchedulerConfig
from octavo.scheduler.policies.registry import policy_factory
from octavo.scheduler.scheduler import Scheduler
from octavo.tokenization import ChatTemplate, Tokenizer
from octavo.weights.gguf import GGUFFile

Progress = Callable[[int, int], None]
"""Called with (parts done, parts in all) while weights are loaded."""


@dataclass(frozen=True, slots=True)
class Front:
    """What turns prompts into requests. `resolved.config` has no open choices left."""

    path: Path
    tokenizer: Tokenizer
    template: ChatTemplate | None
    model: ModelConfig
    resolved: Resolved
    inputs: InputProcessor


def load_front(config: EngineConfig) -> Front:
    """Everything but the weights, in a fraction of a second.

    Raises FetchError, WeightError, TokenizerError or ConfigError.
    """
    path = locate(config)
    with GGUFFile.open(path) as file:
        return make_front(file, config)


def load_engine(config: EngineConfig, progress: Progress | None = None) -> Engine:
    """An engine that is ready to take requests. Raises as `load_front` does."""
    with GGUFFile.open(locate(config)) as file:
        front = make_front(file, config)
        return make_engine(front, make_runner(file, front, progress))


def locate(config: EngineConfig) -> Path:
    """The model's file, fetched if it is not on this machine yet."""
    if not config.model:
        raise ConfigError("no model is given: a path, a catalogue name or a hub id is needed")
    return find_model(config.model)


def make_front(file: GGUFFile, config: EngineConfig) -> Front:
    """The front of an open file. Reads metadata only."""
    model = model_from_gguf(file).config
    resolved = resolve(config, model, this_machine(), tuple(isa_levels()))
    tokenizer = Tokenizer.from_gguf(file.metadata, source=file.path)
    template = ChatTemplate.from_gguf(file.metadata, source=file.path)
    max_model_len = resolved.config.max_model_len
    assert max_model_len is not None, "resolve decides it"
    inputs = InputProcessor(
        tokenizer, template, vocab_size=model.vocab_size, max_model_len=max_model_len
    )
    return Front(file.path, tokenizer, template, model, resolved, inputs)


def make_runner(file: GGUFFile, front: Front, progress: Progress | None = None) -> Runner:
    """What computes for `front`: the weights of its file, loaded. Raises as `load_runner` does."""
    return load_runner(file, front.resolved.config, front.tokenizer.stop_token_ids, progress)


def make_engine(front: Front, runner: Runner) -> Engine:
    """The engine behind `front`, computing on `runner`."""
    config = front.resolved.config
    kv = KvManager(
        runner.num_pages,
        page_tokens=config.block_size,
        enable_prefix_caching=config.enable_prefix_caching,
    )
    limits = SchedulerConfig(
        max_num_seqs=config.max_num_seqs,
        max_num_batched_tokens=config.max_num_batched_tokens,
        max_model_len=runner.max_model_len,
        max_logit_rows=runner.max_logit_rows,
        eos_token_ids=front.tokenizer.stop_token_ids,
        reserve_high_priority=config.reserve_high_priority,
        max_step_seconds=config.max_step_seconds,
    )
    scheduler = Scheduler(limits, kv, policy_factory(config))
    return Engine(scheduler, runner, front.tokenizer, config.seed)
