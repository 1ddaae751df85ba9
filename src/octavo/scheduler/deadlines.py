"""Which sequences have run out of time. Owns an order by deadline; must not know who runs."""

from __future__ import annotations

import heapq
from itertools import count

from octavo.core.sequence import Sequence


class Deadlines:
    """O(log sequences) each. What ends in time stays until there are more such than others."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Sequence]] = []
        self._numbers = count()
        self._num_done = 0

    def watch(self, sequence: Sequence) -> None:
        deadline = sequence.request.deadline
        if deadline is not None:
            heapq.heappush(self._heap, (deadline, next(self._numbers), sequence))

    def take_expired(self, now: float) -> list[Sequence]:
        """Those that are not finished and whose deadline has come, each once."""
        expired = []
        while self._heap and self._heap[0][0] <= now:
            _, _, sequence = heapq.heappop(self._heap)
            if not sequence.is_finished:
                expired.append(sequence)
        return expired

    def done(self, sequence: Sequence) -> None:
        """It is finished, for whatever reason."""
        if sequence.request.deadline is None:
            return
        self._num_done += 1
        if 2 * self._num_done > len(self._heap):
            self._heap = [entry for entry in self._heap if not entry[2].is_finished]
            heapq.heapify(self._heap)
            self._num_done = 0
