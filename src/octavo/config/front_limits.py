"""What reading one request may take before the engine sees it: options of engine and server.

Bounds of chat templates and of grammars, each enforced at the limit and not beyond. Knows neither.
"""

from __future__ import annotations

from dataclasses import dataclass

from octavo.config.options import option
from octavo.core.structured_outputs import (
    MAX_CHOICES,
    MAX_GRAMMAR_BYTES,
    MAX_REGEX_BYTES,
    MAX_SCHEMA_BYTES,
    MAX_SCHEMA_DEPTH,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontLimits:
    """Upper bounds of sizes are those of `StructuredOutputs`."""

    template_seconds: float = option(
        0.25,
        "Processor time that the chat template may take for one request.",
        metavar="SECONDS",
        minimum=0.001,
        maximum=60,
    )
    template_output_chars: int = option(
        1 << 16,
        "Characters that the chat template may write beyond four times those of the messages.",
        metavar="CHARS",
        minimum=0,
        maximum=1 << 24,
    )
    template_items: int = option(
        1 << 17,
        "Items of one list that the chat template makes or counts over, at most.",
        metavar="N",
        minimum=16,
        maximum=1 << 22,
    )
    grammar_seconds: float = option(
        1.0,
        "Time in which a schema, regex or grammar of one request must compile.",
        metavar="SECONDS",
        minimum=0.01,
        maximum=60,
    )
    grammar_memory_bytes: int = option(
        256 << 20, "Memory that it may take for that.", metavar="BYTES", minimum=16 << 20
    )
    grammar_cache_bytes: int = option(
        16 << 20, "Compiled grammars that are remembered.", metavar="BYTES", minimum=0
    )
    max_schema_bytes: int = option(
        64 << 10,
        "Largest JSON schema, of a tool too, and largest structural tag.",
        metavar="BYTES",
        minimum=2,
        maximum=MAX_SCHEMA_BYTES,
    )
    max_schema_depth: int = option(
        MAX_SCHEMA_DEPTH,
        "Schemas within schemas, at most.",
        minimum=1,
        maximum=MAX_SCHEMA_DEPTH,
    )
    max_grammar_bytes: int = option(
        64 << 10,
        "Largest grammar, and largest list of choices.",
        metavar="BYTES",
        minimum=1,
        maximum=MAX_GRAMMAR_BYTES,
    )
    max_regex_bytes: int = option(
        4 << 10, "Largest regex.", metavar="BYTES", minimum=1, maximum=MAX_REGEX_BYTES
    )
    max_choices: int = option(
        1024, "Choices of one request, at most.", minimum=1, maximum=MAX_CHOICES
    )
