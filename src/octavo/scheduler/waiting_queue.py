"""The order in which waiting sequences are admitted: a protocol, and first come, first served.

Owns nothing but the order. Must not look into pages, budgets or the running sequences.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol

from octavo.core.sequence import Sequence


class WaitingQueue(Protocol):
    """What the scheduler asks of an order. It admits the head, or nobody: no overtaking.

    Every method should be O(1) or O(log waiting): `head` is asked in every step.
    """

    def __len__(self) -> int: ...

    def append(self, sequence: Sequence) -> None:
        """A sequence arrives."""

    def push_front(self, sequence: Sequence) -> None:
        """A sequence that was admitted before comes back, and goes before all others."""

    def head(self) -> Sequence | None:
        """Who is next. The same answer until the queue changes."""

    def discard(self, sequence: Sequence) -> None:
        """It is admitted or gave up. Does nothing if it is not here."""


class FcfsQueue:
    """First come, first served."""

    def __init__(self) -> None:
        self._sequences: OrderedDict[Sequence, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sequences)

    def append(self, sequence: Sequence) -> None:
        self._sequences[sequence] = None

    def push_front(self, sequence: Sequence) -> None:
        self._sequences[sequence] = None
        self._sequences.move_to_end(sequence, last=False)

    def head(self) -> Sequence | None:
        return next(iter(self._sequences), None)

    def discard(self, sequence: Sequence) -> None:
        self._sequences.pop(sequence, None)
