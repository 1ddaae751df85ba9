"""How many sequences may run, in all and outside the high class. Owns two numbers, no sequences."""

from __future__ import annotations

from octavo.core.sequence import Sequence
from octavo.scheduler.config import SchedulerConfig
from octavo.scheduler.ready_queue import is_high


class Slots:
    """A beam search takes those of all its beams when it starts, and gives them back together."""

    def __init__(self, config: SchedulerConfig) -> None:
        self._config = config
        self._num_taken = 0
        self._num_taken_by_high = 0

    def have(self, number: int, *, is_reserved: bool) -> bool:
        """Whether so many are left to somebody, who may use the reserved share or not."""
        num_others = self._num_taken - self._num_taken_by_high
        return self._num_taken + number <= self._config.max_num_seqs and (
            is_reserved or num_others + number <= self._config.max_unreserved_seqs
        )

    def have_for(self, sequence: Sequence) -> bool:
        return self.have(num_slots(sequence), is_reserved=is_high(sequence))

    def are_reserved_for(self, sequence: Sequence) -> bool:
        """Whether one of the high class would take no more than what is reserved for it."""
        num_reserved = self._config.max_num_seqs - self._config.max_unreserved_seqs
        return self._num_taken_by_high + num_slots(sequence) <= num_reserved

    def take(self, sequence: Sequence) -> None:
        self._num_taken += num_slots(sequence)
        self._num_taken_by_high += num_slots(sequence) * is_high(sequence)

    def give_back(self, sequence: Sequence) -> None:
        self._num_taken -= num_slots(sequence)
        self._num_taken_by_high -= num_slots(sequence) * is_high(sequence)


def num_slots(sequence: Sequence) -> int:
    """How many running sequences it stands for."""
    return max(1, sequence.params.num_beams)
