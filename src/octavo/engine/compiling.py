"""Requests that wait for their grammar, while others run.

The first grammar of all takes seconds, for a vocabulary must be taken in; others take milliseconds.
Knows no scheduler.
"""

from __future__ import annotations

from collections.abc import Sequence as SequenceOf
from concurrent.futures import FIRST_COMPLETED, wait
from typing import NamedTuple

from octavo.core.sequence import Sequence
from octavo.engine.grammars import SequenceGrammars

WAIT_SECONDS = 0.02
"""Who has nothing else to do waits so long at once, and then looks for commands."""


class Compiled(NamedTuple):
    """The sequences of a request; whether they can be held to their grammar."""

    sequences: list[Sequence]
    is_usable: bool


class CompilingRequests:
    """By request id, in the order of arrival."""

    def __init__(self, grammars: SequenceGrammars) -> None:
        self._grammars = grammars
        self._held: dict[str, list[Sequence]] = {}

    def __bool__(self) -> bool:
        return bool(self._held)

    def hold(self, sequences: SequenceOf[Sequence]) -> None:
        """Start compiling for one request."""
        self._held[sequences[0].request.request_id] = list(sequences)
        self._grammars.start(sequences)

    def forget(self, request_id: str) -> None:
        """It has ended."""
        self._held.pop(request_id, None)

    def take(self, *, may_wait: bool) -> list[Compiled]:
        """Those whose wait is over. With `may_wait` there is time for one that nearly is."""
        if not self._held:
            return []
        if may_wait:
            futures = [
                self._grammars.compiling(one) for held in self._held.values() for one in held
            ]
            wait(futures, WAIT_SECONDS, return_when=FIRST_COMPLETED)
        taken = []
        for request_id, sequences in list(self._held.items()):
            futures = [self._grammars.compiling(sequence) for sequence in sequences]
            if all(future.done() for future in futures):
                del self._held[request_id]
                is_usable = all(future.exception() is None for future in futures)
                taken.append(Compiled(sequences, is_usable))
        return taken
