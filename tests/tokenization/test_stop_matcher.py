"""Stop strings: nothing of one is ever shown before it, however the text is cut."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.tokenization.stop_matcher import StopMatcher


def run(
    pieces: list[str], stops: list[str], *, include_stop: bool = False
) -> tuple[str, str | None]:
    """What is shown in the end, and the stop string that matched."""
    matcher = StopMatcher(stops, include_stop)
    shown = ""
    for piece in pieces:
        result = matcher.push(piece)
        shown += result.text
        if result.matched is not None:
            assert matcher.flush() == ""
            return shown, result.matched
    return shown + matcher.flush(), None


def expected(text: str, stops: list[str], *, include_stop: bool) -> tuple[str, str | None]:
    """The definition, slowly: the first end, then the longest."""
    for end in range(1, len(text) + 1):
        complete = [stop for stop in stops if stop and text[:end].endswith(stop)]
        if complete:
            stop = max(complete, key=len)
            return text[: end if include_stop else end - len(stop)], stop
    return text, None


short_text = st.text(alphabet="abc", max_size=14)


@given(
    text=short_text,
    stops=st.lists(st.text(alphabet="abc", min_size=1, max_size=5), max_size=4),
    cuts=st.lists(st.integers(0, 14), max_size=6),
    include_stop=st.booleans(),
)
def test_outcome_is_the_definition_for_every_cut(
    text: str, stops: list[str], cuts: list[int], include_stop: bool
) -> None:
    edges = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    pieces = [text[a:b] for a, b in pairwise(edges)]
    wanted = expected(text, stops, include_stop=include_stop)
    assert run(pieces, stops, include_stop=include_stop) == wanted
    assert run(list(text), stops, include_stop=include_stop) == wanted


@given(text=short_text, stops=st.lists(st.text(alphabet="abc", min_size=1, max_size=5), max_size=3))
def test_what_is_shown_early_holds_no_beginning_of_a_stop_string(
    text: str, stops: list[str]
) -> None:
    matcher = StopMatcher(stops, include_stop=False)
    shown = ""
    for character in text:
        result = matcher.push(character)
        shown += result.text
        if result.matched is not None:
            break
        for stop in stops:
            for length in range(1, len(stop)):
                assert not shown.endswith(stop[:length]) or len(shown) < len(text)
    assert text.startswith(shown)
    assert not any(stop in shown for stop in stops)


def test_a_stop_string_longer_than_any_token_is_never_sent() -> None:
    matcher = StopMatcher(["DEFGHIJ"], include_stop=False)
    assert [matcher.push(piece).text for piece in ("AB", "C D", "E")] == ["AB", "C ", ""]
    assert matcher.push("F ").text == "DEF "
    assert [matcher.push(piece) for piece in ("D", "EFG", "HI")][-1].text == ""
    result = matcher.push("JK")
    assert (result.text, result.matched) == ("", "DEFGHIJ")


def test_a_stop_inside_one_token_cuts_the_text_before_it() -> None:
    assert run([" Paris"], ["Pari"]) == (" ", "Pari")
    assert run([" Paris"], ["Pari"], include_stop=True) == (" Pari", "Pari")


@pytest.mark.parametrize("stops", [["ab", "abc"], ["abc", "ab"]])
def test_the_first_complete_stop_string_matches_whatever_their_order(stops: list[str]) -> None:
    assert run(["xabcd"], stops) == ("x", "ab")
    assert run(["xabc"], ["bc", "abc"]) == ("x", "abc")


def test_held_text_is_given_back_at_the_end() -> None:
    assert run(["see you at the E", "N"], ["END"]) == ("see you at the EN", None)


def test_many_long_stop_strings_cost_little_per_character() -> None:
    stops = ["a" * 255 + chr(0x100 + index) for index in range(16)]
    matcher = StopMatcher(stops, include_stop=False)
    start = time.thread_time()
    for _ in range(2000):
        matcher.push("aaaaa")
    assert time.thread_time() - start < 10
