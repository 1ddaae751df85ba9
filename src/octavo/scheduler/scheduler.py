"""Who computes how many tokens in the next step, who waits, and who has to give its pages back.

Owns the state of every live sequence. Must not know tensors, text or clocks: it is told the time.

There is no prefill and no decode phase: a sequence has tokens *computed* and tokens *wanted*, and a
step hands out a budget of tokens until the two meet. A decoding sequence wants one token; a prompt,
or a preempted sequence that starts over, wants many and gets them in chunks. Decodes come first and
never wait; what a chunk may take is bounded by the tokens of a step and, while somebody decodes, by
its predicted time (`step_time`). Prompts are read in the order of their admission.

Pages: a sequence gets pages for all its tokens when it is admitted, so only growing can run out of
pages. Before a step is planned everybody who runs takes the pages that its next token needs; where
they lack, `preemption` says who gives his back, to be computed again or to be swapped in again. The
most senior sequence is never asked to; it always fits alone (see `max_sequence_tokens`), so there
is always progress. Promises of pages to grow into (`promises`) keep those who return from being
sent back at once.

Equal beginnings: a newcomer whose next page is being computed for another waits until it is, and
shares it. That is one step: when newcomers are looked at, all that the running ones want is in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count

from octavo.core.schedule import (
    MoveKind,
    ScheduledSequence,
    ScheduledStep,
    SequenceResult,
    StepResult,
)
from octavo.core.sequence import Sequence, SequenceState
from octavo.kv.kv_manager import KvManager
from octavo.scheduler.beam_searches import BeamSearches
from octavo.scheduler.beams import Hypothesis
from octavo.scheduler.config import SchedulerConfig
from octavo.scheduler.deadlines import Deadlines
from octavo.scheduler.page_grants import PageGrants
from octavo.scheduler.policies.fcfs import Fcfs
from octavo.scheduler.policy import PolicyFactory, Ticket
from octavo.scheduler.preemption import PreemptionCosts, choose_victim
from octavo.scheduler.ready_queue import ReadyFacts, ReadyQueue, is_high
from octavo.scheduler.siblings import Siblings
from octavo.scheduler.slots import Slots
from octavo.scheduler.step_plan import (
    StepPlan,
    is_answering,
    is_decoding,
    reads_prefix,
)
from octavo.scheduler.step_time import StepTimeModel, StepWork
from octavo.scheduler.stopping import Finish, finish_of


@dataclass(slots=True)
class SequenceUpdate:
    """What a step did to one sequence. `finish` is set when token ids or lengths ended it.

    `answers`, best first, are those of a beam search that this step has ended.
    """

    sequence: Sequence
    scheduled: ScheduledSequence
    result: SequenceResult
    finish: Finish | None
    answers: list[Hypothesis] | None = None


@dataclass(slots=True)
class SchedulerCounters:
    """Totals. `num_wasted_tokens` had been computed and must be computed again."""

    num_preemptions: int = 0
    num_swap_preemptions: int = 0
    num_wasted_tokens: int = 0
    num_expired: int = 0


class Scheduler:
    """Sequences enter by `add`, and leave by `apply` (complete) or `finish` (any other reason).

    `now` is in seconds of one clock, that of the requests' arrivals and deadlines.
    """

    def __init__(
        self,
        config: SchedulerConfig,
        kv: KvManager,
        make_policy: PolicyFactory = Fcfs,
        step_time: StepTimeModel | None = None,
    ) -> None:
        self.config = config
        self.kv = kv
        self.step_time = step_time or StepTimeModel()
        self.max_sequence_tokens = kv.groups.max_tokens(kv.num_pages, config.max_model_len)
        self.counters = SchedulerCounters()
        self.wait_reason = ""
        """Why the latest step admitted nobody more: "slots", "pages", "prefix" or "step"."""
        self._facts = ReadyFacts(kv, self.step_time, config.max_num_batched_tokens)
        self._ready = ReadyQueue(
            make_policy, self._facts, reserves=config.reserve_high_priority > 0
        )
        self._costs = PreemptionCosts(
            self.step_time, config.max_num_batched_tokens, config.page_move_seconds
        )
        self._deadlines = Deadlines()
        self._tickets: dict[Sequence, Ticket] = {}  # of all that live
        self._running: dict[Sequence, None] = {}  # in order of admission
        self._slots = Slots(config)
        self._siblings = Siblings()
        self._searches = BeamSearches(kv, self._running)
        self._grants = PageGrants(kv, self._searches)
        self._admissions = count(1)
        self._latest_work = StepWork()

    @property
    def has_work(self) -> bool:
        return bool(self._tickets)

    @property
    def num_running(self) -> int:
        return len(self._running)

    @property
    def num_waiting(self) -> int:
        return len(self._tickets) - len(self._running)

    @property
    def num_preemptions(self) -> int:
        return self.counters.num_preemptions

    def fits(self, sequence: Sequence) -> bool:
        """Whether it could ever run: the prompt, and one token if any, fits context and pages."""
        if sequence.params.num_beams > self.config.max_unreserved_seqs:
            return False
        num_output_tokens = 0 if sequence.params.max_tokens == 0 else 1
        return sequence.num_prompt_tokens + num_output_tokens <= self._max_length(sequence)

    def add(self, sequence: Sequence, now: float) -> None:
        """Take a new sequence that fits. Those of one request come in the order of their indices.

        Sequences 1 to n-1 follow sequence 0: they wait until it has computed the prompt, go before
        everybody else then, and share its pages.
        """
        assert self.fits(sequence), f"{sequence.key} can never run"
        self._tickets[sequence] = ticket = self._ticket(sequence)
        self._deadlines.watch(sequence)
        self._facts.enter(sequence.request)
        if sequence.params.use_beam_search:
            self._searches.add(sequence, self.config.eos_token_ids, self._max_length(sequence))
            if sequence.index == 0:
                self._ready.add(sequence, ticket, now)
        elif not self._siblings.add(sequence):
            self._ready.add(sequence, ticket, now)

    def schedule(self, now: float) -> ScheduledStep:
        """The next step. Counts nothing as computed: `apply` does, when the step has run."""
        plan = StepPlan(self.config.step_limits, self.step_time)
        self._searches.rejoin()
        self._grow_running()
        self._plan_running(plan)
        self._admit(plan, now)
        self._latest_work = plan.work
        plan.step.moves = self.kv.take_moves()
        return plan.step

    def apply(self, step: ScheduledStep, result: StepResult) -> list[SequenceUpdate]:
        """Book what `step` computed. Sequences that ended since it was scheduled are left out."""
        running, advance = SequenceState.RUNNING, self._advance
        return [
            advance(scheduled, outcome)
            for scheduled, outcome in zip(step.sequences, result.results, strict=True)
            if scheduled.sequence.state is running
        ]

    def observe(self, step: ScheduledStep, seconds: float, move_seconds: float = 0.0) -> None:
        """The latest step took `seconds` to compute, after `move_seconds` for its moves."""
        self.step_time.observe(self._latest_work, seconds)
        num_swaps = sum(move.kind is not MoveKind.COPY for move in step.moves)
        if num_swaps == len(step.moves):
            self._costs.observe_moves(num_swaps, move_seconds)

    def preempt(self, sequence: Sequence, *, swap: bool) -> None:
        """Take the pages of a running sequence: it waits, to be swapped in again if `swap` and
        there is room in the swap space, else to be computed again. Between steps only.

        A beam takes all of its search with it; of that, only the lead's pages can be swapped."""
        sequence = self._searches.lead_of(sequence)
        self.counters.num_wasted_tokens += self._searches.preempt_followers(sequence)
        self._stop_running(sequence)
        num_computed = sequence.num_computed_tokens
        if swap and self.kv.swap_out(sequence):
            self.counters.num_swap_preemptions += 1
        else:
            self.kv.free(sequence)
            self.counters.num_wasted_tokens += num_computed
        sequence.state = SequenceState.PREEMPTED
        sequence.num_preemptions += 1
        self.counters.num_preemptions += 1
        self._ready.put_back(sequence)

    def take_expired(self, now: float) -> list[Sequence]:
        """Sequences whose deadline has come; the caller ends them."""
        expired = self._deadlines.take_expired(now)
        self.counters.num_expired += len(expired)
        return expired

    def finish(self, sequence: Sequence) -> None:
        """End it in whatever state it is, and all of its search if it is a beam. Frees the pages.
        Idempotent; one that was never added is nothing to end."""
        for one in self._searches.close(sequence):
            if one in self._tickets:
                self._finish(one)

    def _finish(self, sequence: Sequence) -> None:
        self._stop_running(sequence)
        self._ready.remove(sequence)
        self._siblings.remove(sequence)
        self._release_followers(sequence)
        self.kv.free(sequence)
        sequence.state = SequenceState.FINISHED
        self._deadlines.done(sequence)
        self._facts.leave(sequence.request)
        del self._tickets[sequence]

    def waiting_by_reason(self) -> dict[str, int]:
        """How many wait for what: all newcomers for what the first of them waits for."""
        num_returning = self._ready.num_returning
        counts = {
            "sibling": self.num_waiting - len(self._ready),
            "preempted": num_returning,
            self.wait_reason or "step": len(self._ready) - num_returning,
        }
        return {reason: number for reason, number in counts.items() if number}

    def waiting_by_tenant(self) -> Mapping[str, int]:
        """How many newcomers wait, by tenant."""
        return self._ready.num_by_tenant

    def num_unread_tokens(self) -> int:
        """Prompt tokens that are still to be computed. O(running sequences)."""
        return self._ready.num_prompt_tokens + sum(
            max(0, sequence.num_prompt_tokens - sequence.num_computed_tokens)
            for sequence in self._running
        )

    def seconds_per_prompt_token(self) -> float:
        """Of a prompt that fills its steps, as far as steps have been measured."""
        step_tokens = self.config.max_num_batched_tokens
        return self.step_time.seconds_to_compute(step_tokens, step_tokens) / step_tokens

    # --- the running ones ---------------------------------------------------------------------

    def _grow_running(self) -> None:
        """Everybody who runs gets the pages that its next token needs, or leaves. While some grow
        or leave, nobody else comes to need pages: shared ones only become fewer."""
        for sequence in self.kv.those_to_grow(self._running):
            while sequence.state is SequenceState.RUNNING and not self._grow(sequence):
                victim = choose_victim(
                    self._running, self._grants.promises, self._costs, self._searches.followers
                )
                self.preempt(victim, swap=self._costs.swap(victim) < self._costs.recompute(victim))

    def _grow(self, sequence: Sequence) -> bool:
        is_alone = len(self._running) - len(self._searches.followers) == 1
        return self._grants.grow(sequence, is_alone=is_alone)

    def _stop_running(self, sequence: Sequence) -> None:
        if sequence in self._running and not self._searches.stop(sequence):
            del self._running[sequence]
            self._slots.give_back(sequence)
            self._grants.promises.drop(sequence)

    def _plan_running(self, plan: StepPlan) -> None:
        """Decodes, then prompts: those of the high class first."""
        reserves = self.config.reserve_high_priority > 0
        held_back = self._searches.held_back()
        answering = [one for one in self._running if is_answering(one) and one not in held_back]
        plan.add_answering(answering, sum(map(is_high, answering)) if reserves else 0)
        if len(answering) == len(self._running):
            return
        prompts = []
        for sequence in self._running:
            if not is_decoding(sequence) or sequence in held_back:
                prompts.append(sequence)
            elif not is_answering(sequence):
                plan.add(sequence, 1, is_reserved=is_high(sequence))
        if reserves:
            prompts.sort(key=is_high, reverse=True)
        for sequence in prompts:
            self._plan_chunk(sequence, plan)

    def _plan_chunk(self, sequence: Sequence, plan: StepPlan) -> None:
        """As much of its prompt as fits into the step, if any."""
        num_fitting = plan.fits(sequence, is_reserved=is_high(sequence))
        num_tokens = self._searches.max_chunk(sequence, num_fitting)
        if num_tokens:
            plan.add(sequence, num_tokens, is_reserved=is_high(sequence))
        else:
            plan.has_cut = True

    # --- the waiting ones ---------------------------------------------------------------------

    def _admit(self, plan: StepPlan, now: float) -> None:
        """Admit whoever is next while slots, budgets and pages last.

        Nobody overtakes, but those of the high class do where the next one lacks slots or tokens
        and some are reserved for them. They take no more than those, so that it gets its turn."""
        self.wait_reason = ""
        overtakes = False
        while True:
            only_high = overtakes or not self._slots.have(1, is_reserved=False)
            sequence = self._ready.head(now, only_high=only_high)
            if sequence is None:
                self.wait_reason = self.wait_reason or ("slots" if only_high else "")
                return
            if overtakes and not self._slots.are_reserved_for(sequence):
                return
            reason = self._reason_to_wait(sequence, plan)
            if not reason:
                self._start(sequence)
                self._plan_chunk(sequence, plan)
                continue
            self.wait_reason = self.wait_reason or reason
            if only_high or is_high(sequence) or reason not in ("slots", "step"):
                return
            overtakes = True

    def _reason_to_wait(self, sequence: Sequence, plan: StepPlan) -> str:
        """Why it cannot be admitted now; "" if it has just got its pages."""
        if not self._slots.have_for(sequence):
            return "slots"
        if not plan.fits(sequence, is_reserved=is_high(sequence)):
            return "step"
        if not plan.has_cut and self._awaits_prefix(sequence):
            return "prefix"
        given = self._grants.give(
            sequence,
            self._siblings.leader_of(sequence),
            max_tokens=self._max_tokens(sequence),
            is_first=not self._running,
        )
        return "" if given else "pages"

    def _awaits_prefix(self, sequence: Sequence) -> bool:
        return reads_prefix(sequence) and self.kv.is_prefix_coming(sequence)

    def _start(self, sequence: Sequence) -> None:
        self._ready.remove(sequence)
        self._running[sequence] = None
        self._slots.take(sequence)
        sequence.state = SequenceState.RUNNING
        if sequence.seniority == (0, 0):
            sequence.seniority = (next(self._admissions), sequence.index)

    # --- booking ------------------------------------------------------------------------------

    def _advance(self, scheduled: ScheduledSequence, result: SequenceResult) -> SequenceUpdate:
        sequence, num_tokens = scheduled.sequence, scheduled.num_tokens
        sequence.num_computed_tokens = num_computed = scheduled.start + num_tokens
        sequence.pooled = result.pooled
        if num_computed % self.kv.page_tokens < num_tokens:  # a stripe has become full
            self.kv.commit(sequence)
        self._ready.charge(self._tickets[sequence], num_tokens)
        if scheduled.start < sequence.num_prompt_tokens <= num_computed:
            self._release_followers(sequence)
        if num_computed < len(sequence.token_ids):
            return SequenceUpdate(sequence, scheduled, result, None)
        if result.candidates is not None:
            answers = self._searches.advance(sequence, result.candidates)
            if answers is not None:
                self.finish(sequence)
            return SequenceUpdate(sequence, scheduled, result, None, answers)
        if result.token_id is not None:
            sequence.token_ids.append(result.token_id)
        if result.mirostat_mu is not None:
            sequence.mirostat_mu = result.mirostat_mu
        finish = finish_of(sequence, self.config.eos_token_ids, self.max_sequence_tokens)
        if finish is not None:
            self.finish(sequence)
        return SequenceUpdate(sequence, scheduled, result, finish)

    def _release_followers(self, leader: Sequence) -> None:
        """Its siblings need wait no more. They share its pages while it runs."""
        for sequence in self._siblings.release(leader):
            number, _ = leader.seniority
            sequence.seniority = (number or next(self._admissions), sequence.index)
            self._ready.put_back(sequence)

    def _max_tokens(self, sequence: Sequence) -> int:
        """Tokens that it can have at most, prompt and answer."""
        wanted = sequence.params.max_tokens
        if wanted is None:
            return self._max_length(sequence)
        return min(sequence.num_prompt_tokens + wanted, self._max_length(sequence))

    def _max_length(self, sequence: Sequence) -> int:
        """What context and pages allow."""
        if not sequence.params.use_beam_search:
            return self.max_sequence_tokens
        return min(self.max_sequence_tokens, self._searches.longest(sequence))

    def _ticket(self, sequence: Sequence) -> Ticket:
        request = sequence.request
        deadline = {} if request.deadline is None else {"deadline": request.deadline}
        return Ticket(
            request_id=request.request_id,
            index=sequence.index,
            tenant=request.tenant,
            priority=request.priority,
            arrival_time=request.arrival_time,
            num_prompt_tokens=sequence.num_prompt_tokens,
            max_new_tokens=self._max_tokens(sequence) - sequence.num_prompt_tokens,
            **deadline,
        )
