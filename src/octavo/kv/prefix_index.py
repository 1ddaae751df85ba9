"""Which pages hold the keys and values of which token prefix: a keyed hash chain over full pages.

Owns names of prefixes and the pages that each name stands for. Must not know sequences or reference
counts: whether a page may be reused is the page pool's business.

A page's keys and values depend on its own tokens and on all tokens before them, so its name is made
of both: digest(page) = BLAKE2b(secret; digest(page before), token ids). The first page hangs on a
digest of the *scope* (adapter and tenant's salt), so that requests of different scopes never meet.
Two guards against foreign pages: the secret is random per process, so nobody can prepare two
prompts that collide, and the token ids are compared on every hit, since a `PageName` is equal to
another only if the digests and the ids are.
"""

from __future__ import annotations

import secrets
from array import array
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import NamedTuple

from octavo.core.page_groups import NO_PAGE

DIGEST_BYTES = 32


class PageName(NamedTuple):
    """The name of a full stripe's content: its tokens, and by `parent` everything before them."""

    digest: bytes
    parent: bytes
    token_ids: tuple[int, ...]
    scope: bytes


def scope_of(adapter: str, cache_salt: str) -> bytes:
    """The scope of requests with this adapter and salt; the salt cannot be read from it."""
    joined = f"{len(adapter)}:{adapter}{cache_salt}"
    return blake2b(joined.encode(), digest_size=DIGEST_BYTES).digest()


class PrefixIndex:
    """Maps a name to the pages, one per group of layers, that hold its tokens: each page has one
    name. Every operation is O(1) in the number of pages.

    `version` changes whenever a search may find something else than before.
    """

    def __init__(self, num_groups: int = 1) -> None:
        self.version = 0
        self._num_groups = num_groups
        self._secret = secrets.token_bytes(DIGEST_BYTES)
        self._pages: dict[PageName, list[int]] = {}
        self._names: dict[int, PageName] = {}

    def __len__(self) -> int:
        return len(self._pages)

    def items(self) -> Iterator[tuple[PageName, list[int]]]:
        """Names, and of each group the page or NO_PAGE."""
        return iter(self._pages.items())

    def name(self, previous: PageName | None, scope: bytes, token_ids: Sequence[int]) -> PageName:
        """The name of the stripe with `token_ids` behind `previous` (None: begins the text)."""
        parent = previous.digest if previous is not None else self._root(scope)
        packed = array("q", token_ids).tobytes()
        return PageName(self._digest(parent, packed), parent, tuple(token_ids), scope)

    def begins_text(self, name: PageName) -> bool:
        """Whether no page stands before it."""
        return name.parent == self._root(name.scope)

    def find(self, name: PageName) -> list[int] | None:
        """Of each group the page or NO_PAGE; None if there is none at all. Not to be changed."""
        return self._pages.get(name)

    def insert(self, name: PageName, pages: Sequence[int]) -> None:
        """Let `name` stand for these, one per group or NO_PAGE, where no other page of equal
        content was there first."""
        held = self._pages.get(name) or [NO_PAGE] * self._num_groups
        for group, page in enumerate(pages):
            if page != NO_PAGE and held[group] == NO_PAGE and page not in self._names:
                held[group] = page
                self._names[page] = name
                self._pages[name] = held
                self.version += 1

    def holds(self, page: int) -> bool:
        return page in self._names

    def forget(self, page: int) -> None:
        """`page` gets new content. Does nothing if no name stands for it."""
        name = self._names.pop(page, None)
        if name is not None:
            held = self._pages[name]
            held[held.index(page)] = NO_PAGE
            if max(held) == NO_PAGE:
                del self._pages[name]
            self.version += 1

    def clear(self) -> None:
        """Forget every page, and change the secret: names made before will never be found again."""
        self._secret = secrets.token_bytes(DIGEST_BYTES)
        self._pages.clear()
        self._names.clear()
        self.version += 1

    def _root(self, scope: bytes) -> bytes:
        return self._digest(b"scope", scope)

    def _digest(self, parent: bytes, content: bytes) -> bytes:
        return blake2b(parent + content, key=self._secret, digest_size=DIGEST_BYTES).digest()
