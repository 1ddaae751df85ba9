"""Which module runs which architecture. It is imported when a file asks for it."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from types import MappingProxyType
from typing import Final, cast

from octavo.core.model_config import ModelConfig
from octavo.errors import WeightError
from octavo.models.model import Model
from octavo.weights.gguf import GGUFFile
from octavo.weights.metadata import metadata_str

MODELS: Final = MappingProxyType(
    {
        "gemma3": "octavo.models.gemma3:from_gguf",
        "llama": "octavo.models.llama:from_gguf",
        "qwen2": "octavo.models.qwen2:from_gguf",
    }
)


def model_from_gguf(file: GGUFFile) -> Model:
    """Raises `WeightError` for an unknown architecture or a fact that cannot be honoured."""
    architecture = metadata_str(file.metadata, "general.architecture", file=file.path)
    if architecture not in MODELS:
        raise WeightError(
            file.path,
            f"general.architecture is {architecture!r}; supported: {', '.join(sorted(MODELS))}",
        )
    module, _, name = MODELS[architecture].partition(":")
    build = cast("Callable[[GGUFFile], Model]", getattr(import_module(module), name))
    return build(file)


def read_model_config(file: GGUFFile) -> ModelConfig:
    """The facts alone. Raises as `model_from_gguf` does."""
    return model_from_gguf(file).config
