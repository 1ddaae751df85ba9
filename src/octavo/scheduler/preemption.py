"""Who has to give pages back when they run out, and whether by recomputing or by swapping.

Owns the choice alone: it changes nothing. Must not know the pages' contents or the queue.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Container, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from octavo.core.sequence import Sequence
from octavo.scheduler.promises import PagePromises
from octavo.scheduler.step_time import StepTimeModel


@dataclass(slots=True)
class PreemptionCosts:
    """Seconds that it costs to bring a sequence back. `page_move_seconds`: one page, one way;
    learnt from the moves that are made, infinite without swap space."""

    step_time: StepTimeModel
    step_tokens: int
    page_move_seconds: float = math.inf

    def recompute(self, sequence: Sequence) -> float:
        return self.step_time.seconds_to_compute(sequence.num_computed_tokens, self.step_tokens)

    def swap(self, sequence: Sequence) -> float:
        return 2 * self.page_move_seconds * sequence.num_pages

    def least(self, sequence: Sequence) -> float:
        return min(self.recompute(sequence), self.swap(sequence))

    def observe_moves(self, num_pages: int, seconds: float) -> None:
        if num_pages and seconds > 0.0:
            self.page_move_seconds += 0.25 * (seconds / num_pages - self.page_move_seconds)


class _Rank(NamedTuple):
    """The smallest is the victim."""

    is_within_share: bool
    importance: int
    is_promised: bool
    cost_seconds: float
    juniority: tuple[int, int]


def choose_victim(
    running: Iterable[Sequence],
    promises: PagePromises,
    costs: PreemptionCosts,
    inseparable: Container[Sequence] = (),
) -> Sequence:
    """Of at least one running sequence. The most senior one is never chosen while there are others.
    Those that are `inseparable` from another one, a junior of whose they are, are not chosen.

    First of the tenants that hold more than their weighted share of the used pages, so that who
    fills the memory on purpose pays for it alone; then the least important by priority; then
    whoever outgrew its promise; then the cheapest to bring back.
    """
    candidates = list(running)
    over = _tenants_over_share(candidates)
    senior = min(candidates, key=_seniority_of)
    others = [one for one in candidates if one is not senior and one not in inseparable]

    def rank(sequence: Sequence) -> _Rank:
        number, index = sequence.seniority
        return _Rank(
            sequence.request.tenant not in over,
            -sequence.request.priority,
            promises.left(sequence) > 0,
            costs.least(sequence),
            (-number, -index),
        )

    return min(others, key=rank) if others else senior


def _tenants_over_share(running: list[Sequence]) -> frozenset[str]:
    """Tenants that hold more pages than their weight among those who run entitles them to."""
    held: Counter[str] = Counter()
    weights: dict[str, float] = {}
    for sequence in running:
        held[sequence.request.tenant] += sequence.num_pages
        weights[sequence.request.tenant] = sequence.request.tenant_weight
    per_weight = held.total() / sum(weights.values())
    return frozenset(name for name, pages in held.items() if pages > per_weight * weights[name])


def _seniority_of(sequence: Sequence) -> tuple[int, int]:
    return sequence.seniority
