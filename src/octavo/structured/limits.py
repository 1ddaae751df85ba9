"""What one grammar may take in the engine, and in the worker that tries it first."""

from __future__ import annotations

from llguidance import LLParserLimits


def parser_limits() -> LLParserLimits:
    """A lexer state takes 1 to 2 kB, and the other figures are thousands of simple operations: a
    mask takes some tens of milliseconds at most, and a grammar 100 MB. What breaks them ends its
    own sequence."""
    return LLParserLimits(
        max_lexer_states=50_000,
        precompute_large_lexemes=False,
        verbose_errors=False,
    )
