"""Sequences of one request: the first computes the prompt, the others wait for it and share it.

Integers and lists only: knows neither pages nor queues. Beams are no siblings in this sense.
"""

from __future__ import annotations

from octavo.core.sequence import Sequence


class Siblings:
    """By request id. Sequence 0 leads; those of one request are added in the order of indices."""

    def __init__(self) -> None:
        self._leaders: dict[str, Sequence] = {}
        self._followers: dict[str, list[Sequence]] = {}

    def add(self, sequence: Sequence) -> bool:
        """Whether it has to wait for its leader."""
        request_id = sequence.request.request_id
        if sequence.index > 0:
            followers = self._followers.get(request_id)
            if followers is None:
                return False
            followers.append(sequence)
            return True
        if sequence.params.num_sequences > 1:
            self._leaders[request_id] = sequence
            self._followers[request_id] = []
        return False

    def leader_of(self, sequence: Sequence) -> Sequence | None:
        """None for a request of one sequence, and once the leader has ended."""
        return self._leaders.get(sequence.request.request_id)

    def release(self, leader: Sequence) -> list[Sequence]:
        """Those that need wait no more; none unless `leader` leads."""
        if leader.index > 0 or not self._followers:
            return []
        return self._followers.pop(leader.request.request_id, [])

    def remove(self, sequence: Sequence) -> None:
        """It has ended. Whom it leads is to be released as well."""
        followers = self._followers.get(sequence.request.request_id, [])
        if sequence in followers:
            followers.remove(sequence)
        if sequence.index == 0:
            self._leaders.pop(sequence.request.request_id, None)
