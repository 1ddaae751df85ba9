"""A name stands for one prefix in one scope, and never for anything else."""

from __future__ import annotations

import pytest

from octavo.kv import prefix_index
from octavo.kv.prefix_index import PageName, PrefixIndex, scope_of


def chain(index: PrefixIndex, pages: list[list[int]], scope: str = "") -> PageName:
    name: PageName | None = None
    for token_ids in pages:
        name = index.name(name, scope_of("", scope), token_ids)
    assert name is not None
    return name


def test_equal_prefixes_have_equal_names() -> None:
    index = PrefixIndex()
    assert chain(index, [[1, 2], [3, 4]]) == chain(index, [[1, 2], [3, 4]])


@pytest.mark.parametrize(
    "other", [[[1, 2], [3, 5]], [[1, 9], [3, 4]], [[3, 4]], [[1, 2]], [[3, 4], [1, 2]]]
)
def test_different_prefixes_have_different_names(other: list[list[int]]) -> None:
    index = PrefixIndex()
    assert chain(index, [[1, 2], [3, 4]]) != chain(index, other)


def test_scopes_share_nothing() -> None:
    index = PrefixIndex()
    index.insert(chain(index, [[1, 2]], "tenant a"), [7])
    assert index.find(chain(index, [[1, 2]], "tenant b")) is None
    assert index.find(chain(index, [[1, 2]], "tenant a")) == [7]


def test_adapter_and_salt_cannot_be_confused() -> None:
    joined = ["a", "1:a", "2:ab", "ab", ""]
    pairs = [(adapter, salt) for adapter in joined for salt in joined]
    assert len({scope_of(*pair) for pair in pairs}) == len(pairs)


def test_two_indices_name_differently_so_names_cannot_be_prepared() -> None:
    assert chain(PrefixIndex(), [[1, 2]]) != chain(PrefixIndex(), [[1, 2]])


def test_a_digest_collision_is_no_hit(monkeypatch: pytest.MonkeyPatch) -> None:
    index = PrefixIndex()
    monkeypatch.setattr(PrefixIndex, "_digest", lambda *_: b"the same for all")
    index.insert(chain(index, [[1, 2]]), [7])
    assert index.find(chain(index, [[1, 3]])) is None
    assert index.find(chain(index, [[1, 2]])) == [7]


def test_the_first_page_of_a_name_stays() -> None:
    index = PrefixIndex()
    name = chain(index, [[1, 2]])
    index.insert(name, [7])
    index.insert(name, [8])
    assert index.find(name) == [7]
    assert not index.holds(8)


def test_a_forgotten_page_is_not_found_and_forgetting_twice_is_harmless() -> None:
    index = PrefixIndex()
    name = chain(index, [[1, 2]])
    index.insert(name, [7])
    index.forget(7)
    index.forget(7)
    assert index.find(name) is None
    assert len(index) == 0


def test_after_clear_old_names_cannot_be_made_again() -> None:
    index = PrefixIndex()
    before = chain(index, [[1, 2]])
    index.insert(before, [7])
    index.clear()
    assert index.find(before) is None
    assert chain(index, [[1, 2]]) != before


def test_digests_are_long_enough_to_be_unguessable() -> None:
    assert prefix_index.DIGEST_BYTES >= 16
    assert len(chain(PrefixIndex(), [[1]]).digest) == prefix_index.DIGEST_BYTES
