"""From what `--logits-processors` says to processors: entry points, or `module:Class`.

Each is imported when a server or `LLM` starts, and checked against the contract's version.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from octavo.config.plugins import load_plugin, make_plugin
from octavo.errors import ConfigError
from octavo.sampling.processors.contract import (
    CONTRACT_VERSION,
    LogitsProcessor,
    ProcessorFactory,
    ProcessorFacts,
)

FLAG = "--logits-processors"
ENTRY_POINT_GROUP = "octavo.logits_processors"


def find_factory(name: str) -> ProcessorFactory:
    """Raises ConfigError."""
    return cast("ProcessorFactory", load_plugin(FLAG, name, ENTRY_POINT_GROUP))


def load_processors(names: Sequence[str], facts: ProcessorFacts) -> dict[str, LogitsProcessor]:
    """By the names that requests give. Raises ConfigError."""
    processors: dict[str, LogitsProcessor] = {}
    for name in names:
        if name in processors:
            raise ConfigError(f"{FLAG} names {name} twice")
        processors[name] = make_plugin(
            f"{FLAG} {name}", find_factory(name), facts, CONTRACT_VERSION
        )
    return processors
