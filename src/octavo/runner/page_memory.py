"""Whole pages on the move: copied, and swapped out and in, as the step's moves say.

Owns the pages' memory and the swap buffer. Must not know what a page holds or whose it is.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from octavo.core.page_groups import PageGroups
from octavo.core.schedule import MoveKind, PageMove
from octavo.kernels._native import KvCache
from octavo.runner.swap_buffer import SwapBuffer

U8 = npt.NDArray[np.uint8]


class PageMemory:
    """Content moves bit for bit, whatever its type: codes, scales and all layers of a group.

    `identity`: pages of memories of equal identity mean the same (`runner.page_identity`); empty
    where nobody asks.
    """

    def __init__(
        self,
        cache: KvCache,
        swap: SwapBuffer,
        identity: bytes = b"",
        groups: PageGroups | None = None,
    ) -> None:
        self.identity = identity
        self.groups = groups or PageGroups()
        self._cache = cache
        self._swap = swap

    @property
    def page_bytes(self) -> int:
        return self._cache.page_bytes

    @property
    def num_swap_slots(self) -> int:
        return self._swap.num_slots

    def do(self, moves: Iterable[PageMove]) -> None:
        """Carry out the moves, one after the other."""
        for kind, source, target in moves:
            match kind:
                case MoveKind.COPY:
                    self._cache.copy_page(source, target)
                case MoveKind.SWAP_OUT:
                    self._cache.save_page(source, self._swap.slot(target))
                case MoveKind.SWAP_IN:
                    self._cache.load_page(target, self._swap.slot(source))

    def read(self, page: int) -> U8:
        """The page's bytes, [page_bytes]."""
        content = np.empty(self.page_bytes, np.uint8)
        self._cache.save_page(page, content)
        return content

    def write(self, page: int, content: U8) -> None:
        """Raises `ValueError` unless `content` has `page_bytes` bytes."""
        self._cache.load_page(page, content)
