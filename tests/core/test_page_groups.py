"""How many pages sequences hold, beside a simulation of a window that slides over stripes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.core.page_groups import PageGroups

WINDOWS = st.sampled_from([(0,), (7,), (0, 1), (0, 20, 5), (33, 16), (0, 17, 17)])


@given(WINDOWS, st.sampled_from([1, 4, 16]), st.integers(1, 70), st.integers(0, 300))
def test_what_a_step_sees_and_writes_is_held_and_little_more(
    windows: tuple[int, ...], page_tokens: int, max_step_tokens: int, num_computed: int
) -> None:
    groups = PageGroups(windows, page_tokens, max_step_tokens)
    num_full = num_computed // page_tokens
    num_stripes = groups.num_stripes(1000)
    for group, window in enumerate(windows):
        first, stop = groups.first_kept(group, num_full), groups.stop(group, num_full, num_stripes)
        last_written = num_computed + max_step_tokens - 1
        assert stop * page_tokens > min(last_written, 999)
        oldest = max(0, num_computed - window + 1) if window else 0
        assert first <= groups.first_needed(group, num_full) <= oldest // page_tokens
        assert groups.first_seen(group, num_computed) == oldest // page_tokens
        if window:
            assert (stop - first) * page_tokens < window + max_step_tokens + 4 * page_tokens
            assert stop - first <= groups.num_pages(num_stripes)


@given(WINDOWS, st.integers(1, 40), st.integers(0, 300), st.integers(1, 2000))
def test_the_longest_sequence_that_fits_is_the_longest(
    windows: tuple[int, ...], max_step_tokens: int, num_pages: int, limit: int
) -> None:
    groups = PageGroups(windows, 4, max_step_tokens)
    longest = groups.max_tokens(num_pages, limit)
    assert groups.num_pages(groups.num_stripes(longest)) <= num_pages
    assert longest == limit or groups.num_pages(groups.num_stripes(longest + 1)) > num_pages


def test_a_long_sequence_of_windows_alone_needs_no_more_than_a_shorter_one() -> None:
    groups = PageGroups((20,), 4, 8)
    assert groups.num_pages(9) == groups.num_pages(1_000_000) == 9
    assert groups.max_tokens(9, 1_000_000) == 1_000_000
    assert groups.max_tokens(8, 1_000_000) == 32


def test_groups_come_with_the_widest_window_first() -> None:
    with pytest.raises(AssertionError, match="widest"):
        PageGroups((5, 0))
