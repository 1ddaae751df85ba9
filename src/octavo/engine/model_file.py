"""Finds a model's file, and decides the options for it. Loads nothing, so that the process that
handles prompts comes to the same decisions as the one that computes."""

from __future__ import annotations

from pathlib import Path

from octavo.config.engine import EngineConfig
from octavo.config.machine import this_machine
from octavo.config.resolve import Resolved, resolve
from octavo.core.model_config import ModelConfig
from octavo.errors import ConfigError
from octavo.hub.find import find_model
from octavo.kernels._native import isa_levels
from octavo.models.registry import model_from_gguf
from octavo.weights.gguf import GGUFFile


def locate(config: EngineConfig) -> Path:
    """The model's file, fetched if it is not on this machine yet."""
    if not config.model:
        raise ConfigError("no model is given: a path, a catalogue name or a hub id is needed")
    return find_model(config.model)


def resolve_for(file: GGUFFile, config: EngineConfig) -> tuple[Resolved, ModelConfig]:
    """The options without open choices, and the facts of the file that they were made for."""
    model = model_from_gguf(file).config
    return resolve(config, model, this_machine(), tuple(isa_levels())), model
