"""Whole pages on the move: copied, and swapped out and in, as the step's moves say.

Owns the pages' memory and the swap buffer. Must not know what a page holds or whose it is.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from octavo.core.page_groups import PageGroups
from octavo.core.schedule import MoveKind, PageMove
from octavo.kernels._native import KvCache
from octavo.runner.swap_buffer import SwapBuffer

U8 = npt.NDArray[np.uint8]

NUM_MEASURED_PAGES = 4
"""Written to the swap space and read again when it is new: some milliseconds of a start."""


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

    def measure_move_seconds(self, num_pages: int) -> float:
        """What one of the `num_pages` takes on average to go out or to come back; infinite without
        swap space.

        Before anything is computed: pages come back as they were. Slots are written for the first
        time, which in memory costs some ten times what it does later, and which is what the first
        sequences to be swapped out will pay; pages are not, since those that run have used them.
        """
        num_moved = min(NUM_MEASURED_PAGES, self.num_swap_slots, num_pages)
        if num_moved == 0:
            return math.inf
        outs = [PageMove(MoveKind.SWAP_OUT, page, page) for page in range(num_moved)]
        ins = [PageMove(MoveKind.SWAP_IN, page, page) for page in range(num_moved)]
        seconds = self._seconds(outs)
        self.do(ins)
        return (seconds + self._seconds(ins)) / (2 * num_moved)

    def _seconds(self, moves: Iterable[PageMove]) -> float:
        start = time.perf_counter()
        self.do(moves)
        return time.perf_counter() - start

    def read(self, page: int) -> U8:
        """The page's bytes, [page_bytes]."""
        content = np.empty(self.page_bytes, np.uint8)
        self._cache.save_page(page, content)
        return content

    def write(self, page: int, content: U8) -> None:
        """Raises `ValueError` unless `content` has `page_bytes` bytes."""
        self._cache.load_page(page, content)
