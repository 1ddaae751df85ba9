"""A server's admission in virtual time: the real one, told what it would be told. Knows no step's
cost and no other replica.

Prompts are known by their tokens here; the real one guesses them from bytes.
"""

from __future__ import annotations

from collections.abc import Iterable

from octavo.core.schedule import ScheduledStep
from octavo.core.sequence import Sequence
from octavo.engine.counters import EngineCounts
from octavo.engine.sequences import times_of
from octavo.engine.snapshot import Snapshots
from octavo.scheduler.admission.admission import Admission
from octavo.scheduler.admission.demand import Demand, Grant, Refusal
from octavo.scheduler.scheduler import Scheduler


class Door:
    """Wraps one `Admission`: whom it let in, until they are gone."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self._grants: dict[Sequence, Grant] = {}
        self._snapshots: Snapshots | None = None
        self._num_steps = 0

    def admit(self, sequence: Sequence, now: float) -> bool:
        request = sequence.request
        demand = Demand(
            num_prompt_ids=sequence.num_prompt_tokens,
            max_output_tokens=sequence.params.max_tokens,
            deadline=request.deadline,
            priority=request.priority,
        )
        decision = self._admission.admit(request.tenant, demand, now)
        if isinstance(decision, Refusal):
            return False
        self._admission.tokenised(decision, sequence.num_prompt_tokens, now)
        self._grants[sequence] = decision
        return True

    def stamp(self, step: ScheduledStep, now: float) -> None:
        """When each was first scheduled, as the engine notes it."""
        for scheduled in step.sequences:
            if scheduled.sequence.first_scheduled_time == 0.0:
                scheduled.sequence.first_scheduled_time = now

    def look(
        self, step: ScheduledStep, ended: Iterable[Sequence], scheduler: Scheduler, now: float
    ) -> None:
        """What the server learns when a step is done."""
        for scheduled in step.sequences:
            sequence = scheduled.sequence
            if scheduled.samples and sequence.first_token_time == 0.0:
                sequence.first_token_time = now
                self._admission.started(self._grants[sequence], now)
        for sequence in ended:
            self._admission.estimates.finished(times_of(sequence, now))
            self.close(sequence, now)
        self._num_steps += 1
        if self._snapshots is None:
            self._snapshots = Snapshots(scheduler)
        self._admission.load = self._snapshots.take(EngineCounts(num_steps=self._num_steps))

    def close(self, sequence: Sequence, now: float) -> None:
        self._admission.close(self._grants.pop(sequence), sequence.num_output_tokens, now)
