"""stop_regex: matches end where a slow oracle says, however the text comes, and none takes long."""

from __future__ import annotations

import random
import re
import resource
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.errors import InvalidRequest, StopFailed
from octavo.structured.stop_regex import MATCH_CHARS, StopRegexes, check_stop_regex

PATTERNS = [
    "ab",
    "a+b",
    "[0-9]{2,3}",
    "é+z",
    "a|bc",
    r"\n\s*\n",
    "(?i)STOP",
    "a.b",
    r"[^a-z\n]{2}",
    "(a{100}){10}|b",
    "(ab|a)(c|bcd)",
    r"\$x",
    "[$^]1",
]
TEXTS = st.text("abcdz é01$^x\nSTOPst名", max_size=40)
BOMBS = [
    "(a|a)*b",
    "(a+)+b",
    "(x+x+)+y",
    "(a?){50}a{50}",
    "(.*a){20}z",
    "(a|aa|aaa)*b",
    "((a{1,10}){1,10}){1,10}b",
    "(.{1,31}){1,31}b",
    "((((a{1,5}){1,5}){1,5}){5})b",
    "((a{5,}){5,}){5,}b",
    "(a.*b.*c|d.*e.*f){3}q",
    r"[\w]{1,200}#",
    "(" * 200 + "a" + ")" * 200,
    "a.{60}b",
]


def end_of_first_match(patterns: list[str], text: str) -> tuple[int, str] | None:
    """The definition, in quadratic time and more."""
    for end in range(1, len(text) + 1):
        for pattern in patterns:
            expression = re.compile(pattern)
            if any(expression.fullmatch(text, start, end) for start in range(end)):
                return end, pattern
    return None


@given(
    patterns=st.lists(st.sampled_from(PATTERNS), min_size=1, max_size=3),
    pieces=st.lists(TEXTS, max_size=6),
)
def test_the_first_match_ends_where_the_oracle_says(patterns: list[str], pieces: list[str]) -> None:
    regexes, num_chars, found = StopRegexes(patterns), 0, None
    for piece in pieces:
        match = regexes.find(piece)
        if match is not None:
            found = (num_chars + match[0], match[1])
            break
        num_chars += len(piece)
    assert found == end_of_first_match(patterns, "".join(pieces))


@pytest.mark.parametrize("num_before", [0, 1500, 2030, 2047, 2048, 2049, 6000])
def test_a_match_may_begin_anywhere_in_a_long_text(num_before: int) -> None:
    """Longest ones, that a renewal falls into, and beginnings that become none."""
    match = "b" + "é" * (MATCH_CHARS - 2) + "c"
    text = "a" * num_before + "ba" + match
    for num_chars in (1, 7, 10_000):
        regexes, read = StopRegexes(["bé{3,600}c"]), 0
        while (found := regexes.find(text[read : read + num_chars])) is None:
            read += num_chars
            assert read < len(text)
        assert read + found[0] == len(text)


def test_memory_does_not_grow_with_the_text() -> None:
    rng = random.Random(1)
    regexes = StopRegexes(["a.{200}c"])
    before = 0
    for number in range(30):
        regexes.find("".join(rng.choice("ab") for _ in range(1000)))
        if number == 5:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 8 << 10


@pytest.mark.parametrize("pattern", PATTERNS)
def test_what_can_be_looked_for_passes(pattern: str) -> None:
    check_stop_regex(pattern)


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("(", "unclosed group"),
        ("a**", None),
        ("(?=a)b", "look-around"),
        (r"\bfoo", None),
        (r"(a)\1", None),
        ("^a", r"\^ is not supported"),
        ("a$", r"\$ is not supported"),
        ("a|b$", r"\$ is not supported"),
        ("((a{1,99}){1,99}){1,99}b", "repeats multiply to more than 1000"),
        ("(a{101}){10}", "repeats multiply to more than 1000"),
        ("a*", "matches the empty text"),
        ("|a", "matches the empty text"),
    ],
)
def test_what_cannot_be_looked_for_is_refused(pattern: str, reason: str | None) -> None:
    with pytest.raises(InvalidRequest, match=reason) as refused:
        check_stop_regex(pattern)
    assert refused.value.param == "stop_regex"
    assert "\n" not in refused.value.message
    assert len(refused.value.message) < 400


@pytest.mark.parametrize("pattern", BOMBS)
def test_no_regex_takes_long(pattern: str) -> None:
    """Neither to be refused, nor to be looked for until it fails."""
    start = time.process_time()
    try:
        check_stop_regex(pattern)
        regexes = StopRegexes([pattern])
        for number in range(100):
            if regexes.find("a" * 100 + f"xx{number} ab\nqu\u00e9 " + "ba" * 20) is not None:
                break
    except (InvalidRequest, StopFailed):
        pass
    assert time.process_time() - start < 10
