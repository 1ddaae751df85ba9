"""What turns prompts into requests before the engine sees them. Reads metadata and no weights."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from octavo.config.engine import EngineConfig
from octavo.config.resolve import Resolved
from octavo.core.model_config import ModelConfig
from octavo.core.pooling import POOLING_TYPES, Pooler
from octavo.engine.input_processor import InputProcessor
from octavo.engine.model_file import locate, resolve_for
from octavo.errors import ConfigError
from octavo.sampling.processors.contract import ProcessorFacts
from octavo.sampling.processors.guarded import GuardedProcessors
from octavo.sampling.processors.registry import load_processors
from octavo.structured.compiler import GrammarCompiler
from octavo.tokenization.chat_template import ChatTemplate
from octavo.tokenization.template_cage import MAX_TEMPLATE_CHARS
from octavo.tokenization.tokenizer import Tokenizer
from octavo.weights.gguf import GGUFFile


@dataclass(frozen=True, slots=True)
class Front:
    """`resolved.config` has no open choices left."""

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
    with GGUFFile.open(locate(config)) as file:
        return make_front(file, config)


def make_front(file: GGUFFile, config: EngineConfig) -> Front:
    """The front of an open file."""
    resolved, model = resolve_for(file, config)
    tokenizer = Tokenizer.from_gguf(file.metadata, source=file.path)
    template = load_template(file, config)
    max_model_len = resolved.config.max_model_len
    assert max_model_len is not None, "resolve decides it"
    facts = ProcessorFacts(vocab_size=model.vocab_size, stop_token_ids=tokenizer.stop_token_ids)
    processors = load_processors(resolved.config.logits_processors, facts)
    inputs = InputProcessor(
        tokenizer,
        template,
        vocab_size=model.vocab_size,
        max_model_len=max_model_len,
        max_num_seqs=resolved.config.max_num_seqs,
        pooler=make_pooler(resolved.config, model),
        grammars=GrammarCompiler(config),
        processors=GuardedProcessors(processors),
    )
    return Front(file.path, tokenizer, template, model, resolved, inputs)


def load_template(file: GGUFFile, config: EngineConfig) -> ChatTemplate | None:
    """The file's own template, or what `--chat-template` gives. Raises TokenizerError for one that
    cannot be used, ConfigError for a file that cannot be read."""
    kind = config.chat_template_content_format
    text = template_text(config.chat_template)
    return ChatTemplate.from_gguf(
        file.metadata,
        source=file.path if text is None else "--chat-template",
        text=text,
        limits=config,
        keeps_parts=None if kind == "auto" else kind == "openai",
    )


def template_text(given: str) -> str | None:
    """The template that `--chat-template` names or is; None without one."""
    if not given or "{{" in given or "{%" in given:
        return given or None
    try:
        with Path(given).open(encoding="utf-8") as file:
            return file.read(MAX_TEMPLATE_CHARS + 1)  # one more, and it is refused as too long
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"--chat-template is {given:.200}, which is no template and cannot be read as a file:"
            f" {error}"
        ) from None


def make_pooler(config: EngineConfig, model: ModelConfig) -> Pooler:
    """What an embedding of `model` is, by default. `config` has been resolved."""
    return Pooler(
        method=next(method for method in POOLING_TYPES if method == config.pooling_type),
        normalize=config.pooler.normalize,
        dimensions=config.pooler.dimensions or model.hidden_size,
        hidden_size=model.hidden_size,
    )
