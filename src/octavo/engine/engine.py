"""The loop body: schedule, run, apply, emit. Owns which requests are live, and their last words.

Every sequence gets exactly one terminal output, whatever happens. Must not know how a step is
computed, nor who reads the outputs. Not thread-safe: one thread submits, aborts and steps.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from msgspec.structs import replace

from octavo.core.outputs import (
    DEADLINE_EXCEEDED,
    FORM_NOT_KEPT,
    STOP_REGEX_FAILED,
    EngineOutputs,
    EngineStats,
    FinishReason,
    RequestTimes,
    SequenceOutput,
)
from octavo.core.request import EngineRequest
from octavo.core.schedule import ScheduledStep, StepResult
from octavo.core.sequence import Sequence
from octavo.engine.compiling import CompilingRequests
from octavo.engine.counters import Counters
from octavo.engine.forced_tokens import ForcedTokens, LeftGrammar
from octavo.engine.grammars import SequenceGrammars
from octavo.engine.output_processor import DetokenizerSource, OutputProcessor
from octavo.engine.picks import BestOf
from octavo.engine.prefix_store import PrefixStore
from octavo.engine.sequences import make_sequences, times_of
from octavo.engine.snapshot import Snapshots
from octavo.engine.step_meter import StepMeter
from octavo.errors import EngineDead, InvalidRequest, PromptTooLong, StopFailed
from octavo.scheduler.beams import Hypothesis
from octavo.scheduler.scheduler import Scheduler, SequenceUpdate

MAX_FAILED_STEPS = 3
"""So many failed steps in a row are no accident: the engine gives up."""

STEP_FAILED = "the engine failed while it computed this request; its log has the details"
OUTPUT_FAILED = "the engine could not turn this request's tokens into text; its log has the details"
TOO_FEW_ANSWERS = "the model's logits leave fewer answers than were asked for"
ENGINE_DEAD = "the engine has stopped after repeated failures; its log has the details"

logger = logging.getLogger(__name__)


class StepRunner(Protocol):
    """Whoever computes a step. May raise anything: the engine answers for it."""

    def run(self, step: ScheduledStep) -> StepResult: ...


class Engine:
    """`clock` gives seconds comparable to `EngineRequest.arrival_time`."""

    def __init__(
        self,
        scheduler: Scheduler,
        runner: StepRunner,
        tokenizer: DetokenizerSource | None,
        seed: int = 0,
        clock: Callable[[], float] = time.time,
        prefix_store: PrefixStore | None = None,
        grammars: SequenceGrammars | None = None,
    ) -> None:
        self._scheduler = scheduler
        self._prefix_store = prefix_store
        self._runner = runner
        self._snapshots = Snapshots(scheduler)
        self._outputs = OutputProcessor(tokenizer)
        self._grammars = grammars
        self._compiling = None if grammars is None else CompilingRequests(grammars)
        self._forced = ForcedTokens(
            grammars, scheduler.config.eos_token_ids, scheduler.max_sequence_tokens
        )
        self._can_write = tokenizer is not None
        self._seeds = random.Random(seed)
        self._clock = clock
        self._live: dict[str, list[Sequence]] = {}
        self._best_of: dict[str, BestOf] = {}
        self._said: list[SequenceOutput] = []
        self._finished: list[tuple[str, int, RequestTimes]] = []
        self._counters = Counters()
        self._meter = StepMeter()
        self._num_failed_steps = 0

    @property
    def has_work(self) -> bool:
        """Whether `step` has anything to compute or to say."""
        return self._can_step or bool(self._compiling) or self._is_dead

    @property
    def _can_step(self) -> bool:
        return self._scheduler.has_work or bool(self._said)

    def submit(self, request: EngineRequest) -> None:
        """Take a request. Raises `RequestError` if it can never run, or `EngineDead`."""
        if self._is_dead:
            raise EngineDead(ENGINE_DEAD)
        self._check(request)
        sequences = make_sequences(request, unseeded=self._seeds.getrandbits(64))
        if not self._scheduler.fits(sequences[0]):
            raise PromptTooLong(
                f"the prompt has {len(request.prompt_token_ids)} tokens; the engine holds "
                f"{self._scheduler.max_sequence_tokens} per sequence, prompt and answer together",
                param="prompt",
            )
        self._live[request.request_id] = sequences
        self._meter.arrived()
        if request.sampling_params.picks_best and not request.sampling_params.use_beam_search:
            self._best_of[request.request_id] = BestOf(len(sequences))
        if request.grammar and self._compiling is not None:
            self._compiling.hold(sequences)
        else:
            self._admit(sequences)

    def _admit(self, sequences: Iterable[Sequence]) -> None:
        now = self._clock()
        for sequence in sequences:
            self._outputs.start(sequence)
            self._scheduler.add(sequence, now)

    def _admit_compiled(self) -> None:
        """Let those run whose grammar is there."""
        if self._compiling is None:
            return
        for sequences, is_usable in self._compiling.take(may_wait=not self._can_step):
            if is_usable:
                self._admit(sequences)
            else:
                self._end(sequences, "error", FORM_NOT_KEPT)

    def _check(self, request: EngineRequest) -> None:
        """Raises `InvalidRequest` for what this engine cannot do, whatever it holds just now."""
        params = request.sampling_params
        if request.request_id in self._live:
            raise InvalidRequest(f"request id {request.request_id!r} is in use", param="request_id")
        if (params.stop_strings or params.stop_regexes) and not self._can_write:
            raise InvalidRequest(
                "stop strings need a tokenizer; this engine has none", param="stop"
            )
        most = self._scheduler.config.max_unreserved_seqs
        if params.num_beams > most:
            raise InvalidRequest(
                f"beam_width is {params.num_beams}; max_num_seqs, less what is reserved for high "
                f"priority, allows {most}",
                param="beam_width",
            )
        wants_grammar = params.structured_outputs is not None or request.grammar
        if wants_grammar and (self._grammars is None or not request.grammar):
            raise InvalidRequest(
                "structured_outputs need a grammar that has been compiled, and an engine that "
                "knows its vocabulary",
                param="structured_outputs",
            )

    def abort(self, request_id: str) -> None:
        """End a request in whatever state it is. Idempotent; unknown ids are ended already."""
        self._end(list(self._live.get(request_id, ())), "abort")

    def reset_prefix_cache(self) -> None:
        """Forget all cached prefixes, on disk too. Who runs keeps what it has."""
        self._scheduler.kv.reset_prefix_cache()
        if self._prefix_store is not None:
            self._prefix_store.discard()

    def close(self) -> None:
        """Save what outlives the engine. It must not be stepped afterwards."""
        if self._prefix_store is not None and not self._is_dead:
            self._prefix_store.save()

    def step(self) -> EngineOutputs:
        """Compute one step and say what is new. Raises `EngineDead` if the last one failed all."""
        if self._is_dead:
            raise EngineDead(ENGINE_DEAD)
        self._admit_compiled()
        started = self._clock()
        self._meter.begins(started)
        self._end(self._scheduler.take_expired(started), "error", DEADLINE_EXCEEDED)
        step = self._scheduler.schedule(started)
        if step.sequences or step.moves:
            _stamp_scheduled(step, started)
            result = self._run(step)
            if result is not None:
                for update in self._scheduler.apply(step, result):
                    for part in self._with_forced(update):
                        self._emit(part)
            self._measure(step, result, started, self._clock())
        self._counters.count_cpu()
        said, finished = self._said, self._finished
        self._said, self._finished = [], []
        return EngineOutputs(
            outputs=said, finished=finished, steps=self._meter.take(), stats=self.stats()
        )

    def stats(self) -> EngineStats:
        return self._snapshots.take(self._counters.totals)

    @property
    def _is_dead(self) -> bool:
        return self._num_failed_steps >= MAX_FAILED_STEPS

    def _run(self, step: ScheduledStep) -> StepResult | None:
        """The step's result; None if it failed, which ends the sequences that were in it."""
        try:
            result = self._runner.run(step)
            _check_result(step, result)
        except Exception:
            logger.exception("a step of %d sequences failed", len(step.sequences))
            self._num_failed_steps += 1
            self._end([scheduled.sequence for scheduled in step.sequences], "error", STEP_FAILED)
            if self._is_dead:
                everyone = [sequence for live in self._live.values() for sequence in live]
                self._end(everyone, "error", ENGINE_DEAD)
            return None
        self._num_failed_steps = 0
        self._counters.count_result(result)
        return result

    def _with_forced(self, update: SequenceUpdate) -> Iterator[SequenceUpdate]:
        """The update, and tokens that follow from it without being drawn. A token that could not be
        drawn as asked for, or that its grammar does not allow, is its own error only."""
        sequence = update.sequence
        if update.result.error:
            self._end([sequence], "error", update.result.error)
            return
        try:
            yield from self._forced.follow(update)
        except LeftGrammar as error:
            logger.error("a sequence left its grammar: %s", error)
            self._end([sequence], "error", FORM_NOT_KEPT)

    def _emit(self, update: SequenceUpdate) -> None:
        """Say what a step did to one sequence. One sequence's bad text is its own error only."""
        sequence = update.sequence
        self._counters.count_tokens(update, self._clock())
        try:
            if sequence.params.picks_best:
                self._pick(update)
                return
            output = self._outputs.process(update)
        except StopFailed:
            self._end([sequence], "error", STOP_REGEX_FAILED)
            return
        except Exception:
            logger.exception("the output of a sequence failed")
            self._end([sequence], "error", OUTPUT_FAILED)
            return
        if output is None:
            return
        self._said.append(output)
        if output.finish_reason is not None:
            self._retire(sequence)

    def _end(
        self, sequences: Iterable[Sequence], reason: FinishReason, error: str | None = None
    ) -> None:
        for sequence in sequences:
            if sequence.params.picks_best:
                self._end_whole(sequence, reason, error)
            else:
                self._said.append(self._outputs.terminate(sequence, reason, error))
                self._retire(sequence)

    def _pick(self, update: SequenceUpdate) -> None:
        """Of a request that waits for all of its sequences, nothing is said before it is over."""
        sequence = update.sequence
        if update.answers is not None:
            self._say_answers(sequence, update.answers)
            return
        output = self._outputs.process(update)
        if output is None:
            return
        best_of = self._best_of[sequence.request.request_id]
        drawn = update.result.logprobs
        best_of.add(output, 0.0 if drawn is None else drawn.logprob)
        if output.finish_reason is not None:
            self._scheduler.finish(sequence)
            best_of.ended(sequence.index, times_of(sequence, self._clock()))
            if best_of.is_complete:
                self._close(sequence, best_of.best(sequence.params.n))

    def _say_answers(self, lead: Sequence, answers: list[Hypothesis]) -> None:
        """Of a beam search."""
        if len(answers) < lead.params.n:
            self._end_whole(lead, "error", TOO_FEW_ANSWERS)
            return
        times = times_of(lead, self._clock())
        said = []
        for index, answer in enumerate(answers):
            num_tokens = len(answer.beam.token_ids)
            self._counters.count_answer(num_tokens)
            output = self._outputs.answer(lead, index, answer)
            said.append((output, replace(times, num_generation_tokens=num_tokens)))
        self._close(lead, said)

    def _end_whole(self, sequence: Sequence, reason: FinishReason, error: str | None) -> None:
        """End a request that gives all its answers together, unless it is over."""
        request = sequence.request
        if request.request_id not in self._live:
            return
        times = times_of(self._live[request.request_id][0], self._clock())
        outputs = [
            SequenceOutput(
                request_id=request.request_id, index=index, finish_reason=reason, error=error
            )
            for index in range(request.sampling_params.n)
        ]
        self._close(sequence, [(output, times) for output in outputs])

    def _close(self, sequence: Sequence, said: list[tuple[SequenceOutput, RequestTimes]]) -> None:
        """These are the last words of its request, all of them."""
        request_id = sequence.request.request_id
        for one in self._live.pop(request_id):
            self._scheduler.finish(one)
            self._outputs.forget(one)
            self._forget_grammar(one)
        self._best_of.pop(request_id, None)
        for output, times in said:
            self._said.append(output)
            self._finished.append((request_id, output.index, times))

    def _retire(self, sequence: Sequence) -> None:
        """Its terminal output is said: nothing of it stays."""
        self._scheduler.finish(sequence)
        self._forget_grammar(sequence)
        request_id, index = sequence.key
        self._finished.append((request_id, index, times_of(sequence, self._clock())))
        self._live[request_id].remove(sequence)
        if not self._live[request_id]:
            del self._live[request_id]

    def _forget_grammar(self, sequence: Sequence) -> None:
        if self._grammars is not None and self._compiling is not None:
            self._compiling.forget(sequence.request.request_id)
            self._grammars.forget(sequence)

    def _measure(
        self, step: ScheduledStep, result: StepResult | None, began: float, now: float
    ) -> None:
        """All that a step takes, for that is what its sequences wait."""
        seconds = now - began
        if result is not None:
            self._scheduler.observe(step, seconds - result.move_seconds, result.move_seconds)
            self._meter.ends(step, began, now, has_more=self._scheduler.has_work)
        self._counters.count_step(step, seconds)


def _stamp_scheduled(step: ScheduledStep, now: float) -> None:
    for scheduled in step.sequences:
        if scheduled.sequence.first_scheduled_time == 0.0:
            scheduled.sequence.first_scheduled_time = now


def _check_result(step: ScheduledStep, result: StepResult) -> None:
    """A result that does not answer the step is as good as none. Raises ValueError."""
    if len(result.results) != len(step.sequences):
        raise ValueError(f"{len(result.results)} results for {len(step.sequences)} sequences")
    for scheduled, outcome in zip(step.sequences, result.results, strict=True):
        is_beam = scheduled.sequence.params.use_beam_search
        drawn = outcome.candidates if is_beam else outcome.token_id
        if scheduled.samples != (drawn is not None):
            raise ValueError(f"sequence {scheduled.sequence.key} has no token, or one too many")
