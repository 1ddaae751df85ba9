"""Beam search of one request: which beam goes on with which tokens, which answers have ended.

Integers and floats only: must not know pages, sequences or a vocabulary. The rules, and so the
answers, are those of transformers' `generate(num_beams=...)`.
"""

from __future__ import annotations

import heapq
import math
from bisect import insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from octavo.core.sampling_params import SamplingParams
from octavo.core.schedule import Candidates
from octavo.scheduler.stopping import Finish


class Beam(NamedTuple):
    """An answer so far, and the sum of its tokens' log probabilities."""

    token_ids: tuple[int, ...] = ()
    logprob: float = 0.0


class Hypothesis(NamedTuple):
    """A beam that has ended. `worth` is what hypotheses are compared by."""

    beam: Beam
    worth: float
    finish: Finish


class Continuation(NamedTuple):
    """A new beam: that beam of the last step, and one more token."""

    parent: int
    token_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BeamRules:
    """What one request asks of its search. `early_stopping` as in `SamplingParams`."""

    width: int
    max_new_tokens: int
    length_penalty: float
    early_stopping: bool | Literal["never"]
    eos_token_ids: frozenset[int]
    stop_token_ids: frozenset[int]

    @classmethod
    def of(
        cls, params: SamplingParams, eos_token_ids: frozenset[int], max_new_tokens: int
    ) -> BeamRules:
        """`max_new_tokens` is what context and pages allow; the request may allow less."""
        asked = max_new_tokens if params.max_tokens is None else params.max_tokens
        return cls(
            width=params.num_beams,
            max_new_tokens=min(asked, max_new_tokens),
            length_penalty=params.length_penalty,
            early_stopping=params.early_stopping,
            eos_token_ids=frozenset() if params.ignore_eos else eos_token_ids,
            stop_token_ids=frozenset(params.stop_token_ids or ()),
        )

    def worth(self, logprob: float, num_tokens: int) -> float:
        return logprob / math.pow(num_tokens, self.length_penalty)

    def finish_of(self, token_id: int, num_tokens: int) -> Finish | None:
        """Whether an answer of so many tokens ends with this one. A stop token wins over length."""
        if token_id in self.eos_token_ids:
            return Finish("stop")
        if token_id in self.stop_token_ids:
            return Finish("stop", token_id)
        return Finish("length") if num_tokens >= self.max_new_tokens else None


class BeamGroup:
    """The beams of one request. All live ones have the same length; at first there is one, empty.

    The search is over when no beam is live.
    """

    def __init__(self, rules: BeamRules) -> None:
        self.rules = rules
        self.beams: list[Beam] = [Beam()]
        self._ended: list[Hypothesis] = []  # the best first; at most as many as beams

    @property
    def is_over(self) -> bool:
        return not self.beams

    def best(self, count: int) -> list[Hypothesis]:
        """The answers, best first: fewer only if there are not so many sequences of tokens."""
        return self._ended[:count]

    def advance(self, candidates: Sequence[Candidates]) -> list[Continuation]:
        """One token more. `candidates` of each live beam, in their order: enough of its best tokens
        to hold as many that end nothing as there are beams.

        Returns the new live beams, best first, which `beams` are from now on; none if it is over.
        """
        width, num_tokens = self.rules.width, len(self.beams[0].token_ids) + 1
        is_last = num_tokens >= self.rules.max_new_tokens
        continued: list[Continuation] = []
        live: list[Beam] = []
        for rank, (logprob, parent, token_id) in enumerate(self._ranked(candidates)):
            if rank >= width and (is_last or len(live) == width):
                break
            finish = self.rules.finish_of(token_id, num_tokens)
            beam = Beam((*self.beams[parent].token_ids, token_id), logprob)
            if finish is not None and rank < width:
                self._end(beam, finish)
            if finish is None and len(live) < width:
                live.append(beam)
                continued.append(Continuation(parent, token_id))
        self.beams = [] if self._is_decided(live) else live
        return continued if self.beams else []

    def _ranked(self, candidates: Sequence[Candidates]) -> Iterator[tuple[float, int, int]]:
        """(log probability of the whole, beam, token) of all candidates, the best first."""

        def extend(parent: int) -> Iterator[tuple[float, int, int]]:
            before = self.beams[parent].logprob
            for token_id, logprob in zip(*candidates[parent], strict=True):
                yield before + logprob, parent, token_id

        return heapq.merge(*map(extend, range(len(self.beams))), key=lambda one: -one[0])

    def _end(self, beam: Beam, finish: Finish) -> None:
        worth = self.rules.worth(beam.logprob, len(beam.token_ids))
        insort(self._ended, Hypothesis(beam, worth, finish), key=lambda ended: -ended.worth)
        del self._ended[self.rules.width :]

    def _is_decided(self, live: list[Beam]) -> bool:
        """Whether going on would change nothing, or is not wanted."""
        if not live:
            return True
        if len(self._ended) < self.rules.width:
            return False
        return self.rules.early_stopping is True or self._hope(live[0]) <= self._ended[-1].worth

    def _hope(self, beam: Beam) -> float:
        """What the best live beam is taken to be worth at most."""
        rules, num_tokens = self.rules, len(beam.token_ids)
        if rules.early_stopping == "never" and rules.length_penalty > 0:
            num_tokens = rules.max_new_tokens
        return rules.worth(beam.logprob, num_tokens)
