"""octavo: an inference and serving engine for large language models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = [
    "LLM",
    "BeamSearchParams",
    "PoolingParams",
    "ProcessorCall",
    "SamplingParams",
    "StructuredOutputs",
    "__version__",
]

if TYPE_CHECKING:
    from octavo.core.pooling import PoolingParams
    from octavo.core.processor_call import ProcessorCall
    from octavo.core.sampling_params import SamplingParams
    from octavo.core.structured_outputs import StructuredOutputs
    from octavo.entrypoints.beam_search import BeamSearchParams
    from octavo.entrypoints.llm import LLM

_LAZY = {
    "LLM": ("octavo.entrypoints.llm", "LLM"),
    "BeamSearchParams": ("octavo.entrypoints.beam_search", "BeamSearchParams"),
    "PoolingParams": ("octavo.core.pooling", "PoolingParams"),
    "ProcessorCall": ("octavo.core.processor_call", "ProcessorCall"),
    "SamplingParams": ("octavo.core.sampling_params", "SamplingParams"),
    "StructuredOutputs": ("octavo.core.structured_outputs", "StructuredOutputs"),
}


def __getattr__(name: str) -> Any:
    """Load the public classes on first use, so that `import octavo` stays quick (PEP 562)."""
    if name not in _LAZY:
        raise AttributeError(f"module 'octavo' has no attribute {name!r}")
    from importlib import import_module

    module, attribute = _LAZY[name]
    return getattr(import_module(module), attribute)
