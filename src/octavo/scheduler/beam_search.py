"""Beam searches on pages: which sequence holds which beam, and from whom it shares pages.

Owns the sequences of a search and their tokens. Must not know queues, budgets or promises.

A search has as many sequences as it may have beams. Its *lead*, sequence 0, reads the prompt and
stands for all of them before queue, promises and preemption. From the first token on it holds a
beam like any other: a beam's first continuation stays where it is, the others move, as forks, into
sequences whose beams have died. So beams share every page up to where they part, the partial one
included, and what a dead beam held alone is free at once.

A token is drawn for all beams in one step or for none. When a search comes back from preemption,
the lead is computed like any other sequence; the others fork from it where they part from it, and
compute the rest of their own. Nobody draws before all have come so far.
"""

from __future__ import annotations

from octavo.core.page_groups import PageGroups
from octavo.core.schedule import Candidates
from octavo.core.sequence import Sequence, SequenceState
from octavo.kv.kv_manager import KvManager
from octavo.scheduler.beams import BeamGroup, BeamRules, Continuation, Hypothesis
from octavo.scheduler.step_plan import num_wanted_tokens


class BeamSearch:
    """`sequences` are all of the request, `beams` those that hold the group's beams, in its order.

    Beams without pages are not running; who runs is the scheduler's to know.
    """

    def __init__(self, lead: Sequence, rules: BeamRules) -> None:
        self.lead = lead
        self.sequences = [lead]
        self.beams = [lead]
        self._group = BeamGroup(rules)
        self._candidates: dict[Sequence, Candidates] = {}

    @property
    def width(self) -> int:
        return self._group.rules.width

    @property
    def answers(self) -> list[Hypothesis] | None:
        """The answers asked for, best first, once the search is over."""
        return self._group.best(self.lead.params.n) if self._group.is_over else None

    @property
    def is_in_step(self) -> bool:
        """Whether every beam has pages and wants nothing but its next token."""
        return all(
            beam.state is SequenceState.RUNNING and num_wanted_tokens(beam) == 1
            for beam in self.beams
        )

    def max_chunk(self, beam: Sequence) -> int:
        """How much of it may be computed before the others have come so far."""
        return num_wanted_tokens(beam) - int(len(self.beams) > 1)

    def collect(self, beam: Sequence, candidates: Candidates) -> bool:
        """The outcome of a step for one beam. Whether all are in."""
        self._candidates[beam] = candidates
        return len(self._candidates) == len(self.beams)

    def advance(self, kv: KvManager) -> None:
        """Every beam goes on by one token, in another sequence if need be; those whose beams have
        died hold no pages any more."""
        moves = self._group.advance([self._candidates[beam] for beam in self.beams])
        self._candidates.clear()
        homes = self._homes(moves)
        parents = [self.beams[move.parent] for move in moves]
        for sequence in self.sequences:
            if sequence not in parents:
                kv.free(sequence)
        for move, parent, home in zip(moves, parents, homes, strict=True):
            if home is not parent:
                kv.fork(parent, home, parent.num_computed_tokens)
                home.token_ids = [*parent.token_ids, move.token_id]
        for move, parent, home in zip(moves, parents, homes, strict=True):
            if home is parent:
                home.token_ids.append(move.token_id)
        for parent in set(parents).difference(homes):
            kv.free(parent)
        self.beams = homes

    def rejoin(self, kv: KvManager) -> list[Sequence]:
        """Beams that lost their pages share the lead's where they can by now. Returns those."""
        joined = []
        for beam in self.beams:
            if beam is self.lead or beam.state is SequenceState.RUNNING:
                continue
            num_common = _num_common_tokens(beam, self.lead)
            if num_common <= self.lead.num_computed_tokens:
                kv.fork(self.lead, beam, num_common)
                joined.append(beam)
        return joined

    def _homes(self, moves: list[Continuation]) -> list[Sequence]:
        """Where each new beam will live: at its parent's if that is the first of its children, or
        with a sequence that holds none. The lead always has one, or the search is over."""
        homes: list[Sequence | None] = []
        kept: set[Sequence] = set()
        for move in moves:
            parent = self.beams[move.parent]
            homes.append(None if parent in kept else parent)
            kept.add(parent)
        if moves and self.lead not in kept and None not in homes:
            homes[0] = None
        vacant = (sequence for sequence in self.sequences if sequence not in kept)
        return [next(vacant) if home is None else home for home in homes]


def max_beam_stripes(num_prompt_tokens: int, num_tokens: int, width: int, page_tokens: int) -> int:
    """Stripes of beams of so many tokens, prompt included, if they part at the first token."""
    num_shared = num_prompt_tokens // page_tokens
    return num_shared + width * (-(-num_tokens // page_tokens) - num_shared)


def max_beam_tokens(num_prompt_tokens: int, num_pages: int, width: int, groups: PageGroups) -> int:
    """How long beams may become, prompt included, so that they fit whenever they part."""
    num_shared = num_prompt_tokens // groups.page_tokens
    num_left = num_pages - groups.num_pages(num_shared)
    return (num_shared + num_left // (width * groups.num)) * groups.page_tokens


def _num_common_tokens(first: Sequence, second: Sequence) -> int:
    """The length of their common beginning; two beams always differ somewhere behind the prompt."""
    number = first.num_prompt_tokens
    while first.token_ids[number] == second.token_ids[number]:
        number += 1
    return number
