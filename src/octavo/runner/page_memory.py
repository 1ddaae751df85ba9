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
    where nobody asks. `move_seconds`: what `measure_move_seconds` said.
    """

    def __init__(
        self,
        cache: KvCache,
        swap: SwapBuffer,
        identity: bytes = b"",
        groups: PageGroups | None = None,
        move_seconds: float = math.inf,
    ) -> None:
        self.identity = identity
        self.move_seconds = move_seconds
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


def measure_move_seconds(scratch: KvCache, swap: SwapBuffer) -> float:
    """What a page takes on average to go out or to come back; infinite without swap space.

    `scratch` has NUM_MEASURED_PAGES pages like those in use, and `swap` slots like theirs, which
    themselves stay untouched: written once, a page keeps a huge page of memory in each layer.
    Slots are written for the first time, which in memory costs some ten times what it does later,
    and which is what the first sequences to be swapped out will pay; scratch pages are not, since
    the pages of those that run have been used.
    """
    num_moved = min(NUM_MEASURED_PAGES, swap.num_slots)
    if num_moved == 0:
        return math.inf
    pages = PageMemory(scratch, swap)
    outs = [PageMove(MoveKind.SWAP_OUT, page, page) for page in range(num_moved)]
    ins = [PageMove(MoveKind.SWAP_IN, page, page) for page in range(num_moved)]
    seconds = _seconds(pages, outs)
    pages.do(ins)
    return (seconds + _seconds(pages, ins)) / (2 * num_moved)


def _seconds(pages: PageMemory, moves: Iterable[PageMove]) -> float:
    start = time.perf_counter()
    pages.do(moves)
    return time.perf_counter() - start
