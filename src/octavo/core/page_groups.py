"""How many pages a sequence needs where some layers see only a window: pure arithmetic.

A page holds sixteen tokens of one *group* of layers; a *stripe* is the pages of all groups for the
same sixteen tokens. With one group a stripe is a page. All pages are of one size, so that any page
can serve any group, and one pool is enough.

A group of full attention holds a page of every stripe. One with a window holds those that its next
token still sees, one more before them, so that whoever goes on from the last whole stripe finds all
that he sees, and room for a step. So it takes and gives back one page for another, however
long the sequence becomes.
"""

from __future__ import annotations

import sys
from bisect import bisect_right

from octavo.core.sequence import PAGE_TOKENS

NO_PAGE = -1
"""Stands in page tables where a group holds no page of a stripe."""

_ALL = sys.maxsize // 4


class PageGroups:
    """`windows` are the groups', in tokens, 0 for full attention: that first, then from the widest
    to the narrowest. No step computes more than `max_step_tokens` of a sequence.

    A group is meant by its place in `windows`. `num_full` counts whole stripes of computed tokens.
    """

    def __init__(
        self,
        windows: tuple[int, ...] = (0,),
        page_tokens: int = PAGE_TOKENS,
        max_step_tokens: int = 1,
    ) -> None:
        widths = [window or _ALL for window in windows]
        assert widths == sorted(widths, reverse=True) != [], "the widest window comes first"
        self.windows = windows
        self.page_tokens = page_tokens
        self.num = len(windows)
        self.windowed = range(windows.count(0), self.num)
        """The groups that have a window."""
        self._num_seen = [-(-(width - 1) // page_tokens) for width in widths]
        ahead = -(-(max_step_tokens - 1) // page_tokens) + 1
        self._most = [seen + 1 + ahead for seen in self._num_seen]

    def num_stripes(self, num_tokens: int) -> int:
        """Those that so many tokens fill, the last perhaps in part."""
        return -(-num_tokens // self.page_tokens)

    def first_seen(self, group: int, num_tokens: int) -> int:
        """The first stripe that the token behind so many tokens sees."""
        window = self.windows[group]
        return max(0, num_tokens - window + 1) // self.page_tokens if window else 0

    def first_kept(self, group: int, num_full: int) -> int:
        """The first stripe that is held while computing goes on behind `num_full` stripes."""
        return max(0, num_full - self._num_seen[group] - 1)

    def first_needed(self, group: int, num_full: int) -> int:
        """The first stripe that has to be there, that computing may go on behind `num_full`."""
        return max(0, num_full - self._num_seen[group])

    def stop(self, group: int, num_full: int, num_stripes: int) -> int:
        """Where the stripes end of which a page is held, of `num_stripes` that have tokens."""
        return min(num_stripes, self.first_kept(group, num_full) + self._most[group])

    def num_pages(self, num_stripes: int) -> int:
        """Pages that a sequence of so many stripes holds at most at any time."""
        return sum(min(num_stripes, most) for most in self._most)

    def max_tokens(self, num_pages: int, limit: int) -> int:
        """The longest sequence for which so many pages are always enough; at most `limit`."""
        most = self.num_stripes(limit)
        num_stripes = bisect_right(range(most + 1), num_pages, key=self.num_pages) - 1
        return min(limit, num_stripes * self.page_tokens)
