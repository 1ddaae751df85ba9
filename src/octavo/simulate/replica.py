"""One server in virtual time: the real scheduler, pages and admission, on a model of a machine.

Owns what the engine would do between scheduler and runner. Must not know where requests come from,
nor other replicas.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal

from octavo.core.request import EngineRequest
from octavo.core.sampling_params import SamplingParams
from octavo.core.schedule import ScheduledStep, SequenceResult, StepResult
from octavo.core.sequence import Sequence
from octavo.core.step_load import StepLoad, num_attended_tokens
from octavo.scheduler.scheduler import Scheduler
from octavo.simulate.door import Door
from octavo.simulate.records import Gaps
from octavo.simulate.step_times import StepTimes
from octavo.simulate.trace import TraceRequest, prompt_token_ids

WORD, END = 0, -1
"""The two tokens that a simulated model says; no prompt has the second."""

NEVER = -1

Answer = Literal["taken", "refused", "too_long"]

_SPEAKS = SequenceResult(token_id=WORD)
_ENDS = SequenceResult(token_id=END)
_READS = SequenceResult()


@dataclass(slots=True, eq=False)
class SimulatedSequence(Sequence):
    """`num_final_tokens`: with so many the model ends the answer, if no bound does before.
    `first_step` and `last_step` are numbers of the replica's steps that drew its tokens."""

    num_final_tokens: int = 0
    first_step: int = NEVER
    last_step: int = NEVER


@dataclass(slots=True)
class StepsDone:
    """`end_seconds[i]` is when step i ended. Totals of all steps."""

    end_seconds: array[float] = field(default_factory=lambda: array("d"))
    busy_seconds: float = 0.0
    num_tokens: int = 0
    num_sequences: int = 0

    def at(self, step: int) -> float:
        return self.end_seconds[step]


class Replica:
    """`start_step` and `end_step` in turns; `submit` at any time. `gaps` takes the times between
    tokens, of all replicas that share it."""

    def __init__(
        self, scheduler: Scheduler, times: StepTimes, gaps: Gaps, door: Door | None = None
    ) -> None:
        self.scheduler = scheduler
        self.steps = StepsDone()
        self._door = door
        self._seconds: Callable[[StepLoad], float] = times.seconds
        self._arrival_seconds = times.arrival_seconds
        self._owed_seconds = 0.0  # by arrivals during a step; the next one pays
        self._gaps = gaps
        self._running: tuple[ScheduledStep, StepResult, float] | None = None
        self._skipped: list[SimulatedSequence] = []  # drew no token in the step before
        self._num_followed = 0  # did

    @property
    def is_busy(self) -> bool:
        return self._running is not None

    def submit(self, sequence: SimulatedSequence, now: float) -> Answer:
        """Take a new request, or not."""
        if not self.scheduler.fits(sequence):
            return "too_long"
        if self._door is not None and not self._door.admit(sequence, now):
            return "refused"
        self.scheduler.add(sequence, now)
        if self.is_busy:
            self._owed_seconds += self._arrival_seconds
        return "taken"

    def expire(self, now: float) -> list[SimulatedSequence]:
        """End and return those whose deadline has come. Between steps."""
        expired = simulated(self.scheduler.take_expired(now))
        for sequence in expired:
            self.scheduler.finish(sequence)
            if self._door is not None:
                self._door.close(sequence, now)
        return expired

    def start_step(self, now: float) -> float | None:
        """Plan the next step; when it will end, None if there is nothing to do."""
        step = self.scheduler.schedule(now)
        if not step.sequences:
            return None
        if self._door is not None:
            self._door.stamp(step, now)
        load, result = self._compute(step)
        seconds = self._seconds(load) + self._owed_seconds
        self._owed_seconds = 0.0
        self._running = (step, result, seconds)
        self._count(load, seconds)
        self.steps.end_seconds.append(now + seconds)
        return now + seconds

    def end_step(self) -> list[SimulatedSequence]:
        """Book the step that `start_step` planned; the sequences that ended with it."""
        assert self._running is not None
        step, result, seconds = self._running
        self._running = None
        self._note_gaps()
        updates = self.scheduler.apply(step, result)
        self.scheduler.observe(step, seconds)
        ended = simulated(update.sequence for update in updates if update.finish is not None)
        if self._door is not None:
            self._door.look(step, ended, self.scheduler, self.steps.end_seconds[-1])
        return ended

    def _compute(self, step: ScheduledStep) -> tuple[StepLoad, StepResult]:
        """What the step costs and what it says, in one walk: this is the simulator's inner loop."""
        number = len(self.steps.end_seconds)
        results = []
        skipped = self._skipped
        num_followed = num_rows = decode_attended = prompt_attended = prompt_context = 0
        sequence: SimulatedSequence
        for scheduled in step.sequences:
            start, num_tokens = scheduled.start, scheduled.num_tokens
            if num_tokens == 1:
                decode_attended += start + 1
            else:
                prompt_attended += num_attended_tokens(start, num_tokens)
                prompt_context += start + num_tokens
            if not scheduled.samples:
                results.append(_READS)
                continue
            num_rows += 1
            sequence = scheduled.sequence  # type: ignore[assignment]  # it came by `submit`
            ends = start + num_tokens + 1 >= sequence.num_final_tokens
            results.append(_ENDS if ends else _SPEAKS)
            if sequence.last_step == number - 1 and number:
                num_followed += 1
                sequence.last_step = number
            else:
                skipped.append(sequence)
        self._num_followed = num_followed
        context = decode_attended + prompt_context
        sizes = (step.num_tokens, len(results), num_rows)
        load = StepLoad(*sizes, decode_attended, prompt_attended, context)
        return load, StepResult(results)

    def _note_gaps(self) -> None:
        """Times between tokens. Nearly all follow one of the step before: counted at once."""
        number = len(self.steps.end_seconds) - 1
        end = self.steps.at(number)
        if self._num_followed:
            self._gaps.add(end - self.steps.at(number - 1), self._num_followed)
        for sequence in self._skipped:
            if sequence.last_step == NEVER:
                sequence.first_step = number
            else:
                self._gaps.add(end - self.steps.at(sequence.last_step), 1)
            sequence.last_step = number
        self._skipped.clear()

    def _count(self, load: StepLoad, seconds: float) -> None:
        self.steps.busy_seconds += seconds
        self.steps.num_tokens += load.num_tokens
        self.steps.num_sequences += load.num_sequences


def simulated(sequences: Iterable[Sequence]) -> list[SimulatedSequence]:
    """All of them: whatever a replica's scheduler knows came by `submit`."""
    return [sequence for sequence in sequences if isinstance(sequence, SimulatedSequence)]


def make_sequence(
    request: TraceRequest, number: int, sent: float, weight: float = 1.0
) -> SimulatedSequence:
    """As the engine makes one. It learns `max_tokens`, not the answer's length."""
    ids = prompt_token_ids(request, number)
    timeout = request.timeout_seconds
    engine_request = EngineRequest(
        request_id=str(number),
        prompt_token_ids=ids,
        sampling_params=SamplingParams(max_tokens=request.max_tokens),
        arrival_time=sent,
        priority=request.priority,
        tenant=request.tenant,
        tenant_weight=weight,
        deadline=None if timeout is None else sent + timeout,
    )
    return SimulatedSequence(
        request=engine_request,
        index=0,
        token_ids=list(ids),
        num_prompt_tokens=len(ids),
        seed=0,
        num_final_tokens=len(ids) + request.num_answer_tokens,
    )
