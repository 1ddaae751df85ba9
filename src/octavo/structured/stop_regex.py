"""Regexes that end an answer: where the first match of any of them ends, in text as it comes.

The grammar library's automata read each character once, so that no regex takes more than linear
time; what they may cost is bounded by counts of their own, the same on every machine. Knows no
token and no sequence.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Final

from llguidance import LLMatcher, LLParserLimits, LLTokenizer

from octavo.errors import InvalidRequest, StopFailed
from octavo.structured.byte_tokenizer import byte_tokenizer

_ESCAPES_AND_CLASSES: Final = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
_COUNT: Final = re.compile(r"\{(?:\d*,)?(\d+)\}")
MATCH_CHARS: Final = 512
RENEW_CHARS: Final = 2048
"""A character can make one more state of 1 to 2 kB: after so many an automaton begins anew, and
reads what a match may have begun in once more."""
MAX_REPEATS: Final = 1000
"""Counted repeats within repeats are the one thing that makes a single character dear."""


class StopRegexes:
    """Of one text. A match is found at the first character at which there is one. One of more than
    `MATCH_CHARS` characters may be missed."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._patterns = patterns
        self._renew("")

    def find(self, text: str) -> tuple[int, str] | None:
        """Take more text: how many of its characters the first match needs, and the regex. Nothing
        may be added after that. Raises `StopFailed`."""
        for num_chars, character in enumerate(text, start=1):
            if len(self._seen) == RENEW_CHARS:
                self._renew("".join(self._seen[-MATCH_CHARS:]))
            self._seen.append(character)
            data = list(character.encode())
            for pattern, matcher in self._searches:
                _consume(matcher, data)
                if matcher.is_accepting():
                    return num_chars, pattern
        return None

    def _renew(self, text: str) -> None:
        """Forget the states of long ago. No match ends in `text`: it would have been found."""
        tokenizer = byte_tokenizer()
        self._searches = [(pattern, _search(tokenizer, pattern)) for pattern in self._patterns]
        self._seen = list(text)
        for _, matcher in self._searches:
            _consume(matcher, list(text.encode()))


def _consume(matcher: LLMatcher, data: list[int]) -> None:
    if data and not matcher.consume_tokens(data):
        raise StopFailed(matcher.get_error())


def check_stop_regex(pattern: str) -> None:
    """Raises `InvalidRequest` for what is no regex, or none that can be looked for."""
    plain = _ESCAPES_AND_CLASSES.sub("x", pattern)
    if anchors := re.findall(r"[\^$]", plain):
        raise _refused(pattern, f"{anchors[0]} is not supported: it may match anywhere in the text")
    num_repeats = math.prod(int(most[:9]) for most in _COUNT.findall(plain))
    if num_repeats > MAX_REPEATS:
        raise _refused(pattern, f"its repeats multiply to more than {MAX_REPEATS}")
    tokenizer = byte_tokenizer()
    alone = LLMatcher(
        tokenizer, LLMatcher.grammar_from_regex(pattern), log_level=0, limits=_limits()
    )
    if alone.is_error():
        raise _refused(pattern, alone.get_error().rpartition("error: ")[2].partition("\n")[0])
    if alone.is_accepting():
        raise _refused(pattern, "it matches the empty text, which is everywhere")
    search = _search(tokenizer, pattern)
    if search.is_error():
        raise _refused(pattern, "it is too complex")


def _search(tokenizer: LLTokenizer, pattern: str) -> LLMatcher:
    grammar = LLMatcher.grammar_from_regex(f"(?s:.*)(?:{pattern})")
    return LLMatcher(tokenizer, grammar, log_level=0, limits=_limits())


def _limits() -> LLParserLimits:
    """A state takes 1 to 2 kB, the others are counts of operations: milliseconds."""
    return LLParserLimits(
        initial_lexer_fuel=100_000,
        step_lexer_fuel=20_000,
        max_lexer_states=10_000,
        precompute_large_lexemes=False,
        verbose_errors=False,
    )


def _refused(pattern: str, what: str) -> InvalidRequest:
    return InvalidRequest(f"stop_regex {pattern[:60]!r}: {what:.300}", param="stop_regex")
