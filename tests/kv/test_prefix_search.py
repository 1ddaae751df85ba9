"""The memory of the last search."""

from __future__ import annotations

from octavo.kv.kv_manager import KvManager
from tests.fakes import make_sequence


def test_a_sequence_that_comes_back_with_other_tokens_is_searched_anew() -> None:
    """As a beam does that takes the place of a dead one."""
    kv = KvManager(16, page_tokens=4)
    first, second = make_sequence(list(range(9))), make_sequence(list(range(20, 29)), index=1)
    for sequence in (first, second):
        assert kv.allocate(sequence, num_reserved_pages=0, use_prefix=True)
        sequence.num_computed_tokens = sequence.num_tokens
        kv.commit(sequence)
        kv.free(sequence)
    pages = kv.find_prefix(first)
    kv.free(first)
    first.token_ids = list(second.token_ids)
    assert kv.find_prefix(first) == kv.find_prefix(second) != pages
