"""The beam searches of a scheduler, as units among its sequences.

Owns which running sequences are *followers*: beams that are in a step, or not, with their lead. The
lead alone is queued, admitted, promised pages and chosen as a victim. Must not know budgets.
"""

from __future__ import annotations

from collections.abc import Iterator

from octavo.core.schedule import Candidates
from octavo.core.sequence import Sequence, SequenceState
from octavo.kv.kv_manager import KvManager
from octavo.scheduler.beam_search import BeamSearch, max_beam_tokens
from octavo.scheduler.beams import BeamRules, Hypothesis


class BeamSearches:
    """`running` is the scheduler's: followers enter and leave it here."""

    def __init__(self, kv: KvManager, running: dict[Sequence, None]) -> None:
        self._kv = kv
        self._running = running
        self._searches: dict[str, BeamSearch] = {}  # by request
        self.followers: set[Sequence] = set()

    def of(self, sequence: Sequence) -> BeamSearch | None:
        return self._searches.get(sequence.request.request_id)

    def lead_of(self, sequence: Sequence) -> Sequence:
        """Who stands for it: itself, if it is no beam."""
        search = self.of(sequence)
        return sequence if search is None else search.lead

    def add(self, sequence: Sequence, eos_token_ids: frozenset[int], max_length: int) -> None:
        """Sequence 0 of a request opens a search; the others are where beams will live."""
        search = self.of(sequence)
        if search is None:
            max_new_tokens = max_length - sequence.num_prompt_tokens
            rules = BeamRules.of(sequence.params, eos_token_ids, max_new_tokens)
            self._searches[sequence.request.request_id] = BeamSearch(sequence, rules)
        else:
            search.sequences.append(sequence)

    def close(self, sequence: Sequence) -> list[Sequence]:
        """Those who end when it ends: itself, or all of its search."""
        search = self._searches.pop(sequence.request.request_id, None)
        return [sequence] if search is None else search.sequences

    def longest(self, sequence: Sequence) -> int:
        """Tokens, prompt included, that its beams can always have pages for."""
        return max_beam_tokens(
            sequence.num_prompt_tokens,
            self._kv.num_pages,
            sequence.params.num_beams,
            self._kv.groups,
        )

    def max_chunk(self, sequence: Sequence, num_tokens: int) -> int:
        """How many of these tokens may be computed in one step."""
        search = self.of(sequence)
        return num_tokens if search is None else min(num_tokens, search.max_chunk(sequence))

    def held_back(self) -> set[Sequence]:
        """Running beams whose search cannot draw in this step."""
        waiting = (search for search in self._searches.values() if not search.is_in_step)
        return {beam for search in waiting for beam in search.beams if len(search.beams) > 1}

    def advance(self, beam: Sequence, candidates: Candidates) -> list[Hypothesis] | None:
        """Book one beam's outcome; with the last one of the step all beams go on. The answers, if
        that was the end."""
        search = self._searches[beam.request.request_id]
        if not search.collect(beam, candidates):
            return None
        search.advance(self._kv)
        for follower in search.sequences[1:]:
            if follower in search.beams:
                self._start(search, follower)
            elif self.stop(follower):
                follower.state = SequenceState.WAITING
        return search.answers

    def rejoin(self) -> None:
        """Beams that lost their pages get some again, where their lead has come far enough."""
        for search in self._searches.values():
            if search.lead.state is SequenceState.RUNNING:
                for beam in search.rejoin(self._kv):
                    self._start(search, beam)

    def preempt_followers(self, lead: Sequence) -> int:
        """Take their pages. Returns how many computed tokens of their own are lost."""
        return sum(map(self._preempt, self._running_followers(lead)))

    def stop(self, sequence: Sequence) -> bool:
        """If it is a follower, it runs no more."""
        if sequence not in self.followers:
            return False
        self.followers.remove(sequence)
        del self._running[sequence]
        return True

    def _running_followers(self, lead: Sequence) -> Iterator[Sequence]:
        search = self.of(lead)
        sequences = () if search is None else search.sequences
        return (sequence for sequence in sequences if sequence in self.followers)

    def _preempt(self, follower: Sequence) -> int:
        num_lost = follower.num_computed_tokens - follower.num_prompt_tokens
        self.stop(follower)
        self._kv.free(follower)
        follower.state = SequenceState.PREEMPTED
        return num_lost

    def _start(self, search: BeamSearch, beam: Sequence) -> None:
        number, _ = search.lead.seniority
        self._running[beam] = None
        self.followers.add(beam)
        beam.state = SequenceState.RUNNING
        beam.seniority = (number, beam.index)
