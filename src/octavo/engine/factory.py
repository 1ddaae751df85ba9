"""Puts an engine together from its parts, in the process that computes. Handles no prompt: what
does, and needs no weights, is `engine.front`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from octavo.config.engine import EngineConfig
from octavo.engine.engine import Engine
from octavo.engine.grammars import SequenceGrammars, load_grammar_vocabulary
from octavo.engine.model_file import locate, resolve_for
from octavo.engine.prefix_store import PrefixStore
from octavo.kv.kv_manager import KvManager
from octavo.runner.load import load_runner
from octavo.runner.runner import Runner
from octavo.scheduler.config import SchedulerConfig
from octavo.scheduler.policies.registry import policy_factory
from octavo.scheduler.scheduler import Scheduler
from octavo.tokenization.token_decoder import TokenDecoder
from octavo.weights.gguf import GGUFFile

Progress = Callable[[int, int], None]
"""Called with (parts done, parts in all) while weights are loaded."""


def load_engine(config: EngineConfig, progress: Progress | None = None) -> Engine:
    """An engine that is ready to take requests.

    Raises FetchError, WeightError, TokenizerError or ConfigError.
    """
    with GGUFFile.open(locate(config)) as file:
        resolved, _ = resolve_for(file, config)
        decoder = TokenDecoder.from_gguf(file.metadata, source=file.path)
        runner = load_runner(file, resolved.config, decoder.stop_token_ids, progress)
    return make_engine(resolved.config, runner, decoder)


def make_engine(config: EngineConfig, runner: Runner, decoder: TokenDecoder) -> Engine:
    """The engine that computes on `runner`. `config` has been resolved."""
    kv = KvManager(
        runner.num_pages,
        page_tokens=config.block_size,
        enable_prefix_caching=config.enable_prefix_caching,
        groups=runner.groups,
        num_swap_slots=runner.num_swap_slots,
    )
    limits = SchedulerConfig(
        max_num_seqs=config.max_num_seqs,
        max_num_batched_tokens=config.max_num_batched_tokens,
        max_model_len=runner.max_model_len,
        max_logit_rows=runner.max_logit_rows,
        eos_token_ids=decoder.stop_token_ids,
        reserve_high_priority=config.reserve_high_priority,
        max_step_seconds=config.max_step_seconds or None,
        page_move_seconds=runner.pages.move_seconds,
    )
    scheduler = Scheduler(limits, kv, policy_factory(config))
    store = _prefix_store(config, kv, runner)
    vocab_size = runner.model.vocab_size
    grammars = SequenceGrammars(
        vocab_size, lambda: load_grammar_vocabulary(locate(config), vocab_size)
    )
    if config.preload_grammars:
        grammars.preload()
    runner.mask_source = grammars
    return Engine(scheduler, runner, decoder, config.seed, prefix_store=store, grammars=grammars)


def _prefix_store(config: EngineConfig, kv: KvManager, runner: Runner) -> PrefixStore | None:
    """What keeps cached prefixes on disk, in a file per model; it has taken in what was there."""
    if not config.prefix_cache_dir:
        return None
    path = Path(config.prefix_cache_dir) / f"{Path(config.model).name}.prefixes"
    store = PrefixStore(path, config.prefix_cache_disk_bytes, kv, runner.pages)
    store.load()
    return store
