"""Who computes how many tokens in the next step, who waits, and who has to give its pages back.

Owns the state of every live sequence. Must not know tensors, text or clocks.

There is no prefill and no decode phase: a sequence has tokens *computed* and tokens *wanted*, and a
step hands out a budget of tokens until the two meet. A decoding sequence wants one token; a prompt,
or a preempted sequence that starts over, wants many and gets them in chunks.

Running sequences come in the order of their admission. A prompt that does not fit into the rest of
the budget takes all of it, so that nobody is admitted after it until it is read: decoding sequences
always stand before the one that still reads.

Pages: a sequence gets pages for all its tokens when it is admitted, so only decoding can run out of
pages. Then the sequence that was admitted last gives its pages back and waits, first in line, to be
computed again. The one admitted first is never asked to; it always fits alone (see
`max_sequence_tokens`), so there is always progress. To keep a newcomer from being sent back at
once, admission leaves one free page for each running sequence to grow into.

Equal beginnings: a newcomer whose next page is being computed for another waits until it is, and
shares it. That is one step: when newcomers are looked at, all that the running ones want is in it.
"""

from __future__ import annotations

from dataclasses import dataclass

from octavo.core.schedule import ScheduledSequence, ScheduledStep, SequenceResult, StepResult
from octavo.core.sequence import Sequence, SequenceState
from octavo.errors import ConfigError
from octavo.kv.kv_manager import KvManager
from octavo.scheduler.step_plan import StepPlan, num_wanted_tokens, wants_prompt_logprobs
from octavo.scheduler.stopping import Finish, finish_of
from octavo.scheduler.waiting_queue import FcfsQueue, WaitingQueue


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerConfig:
    """Bounds of one step and of one sequence. `eos_token_ids` are the model's end-of-text ids.

    Raises `ConfigError` if a full house of decoding sequences would not fit into one step.
    """

    max_num_seqs: int
    max_num_batched_tokens: int
    max_model_len: int
    max_logit_rows: int
    eos_token_ids: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        for name in ("max_num_seqs", "max_model_len"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}; at least 1 is allowed")
        for name in ("max_num_batched_tokens", "max_logit_rows"):
            if getattr(self, name) < self.max_num_seqs:
                raise ConfigError(
                    f"{name} is {getattr(self, name)}; at least max_num_seqs "
                    f"({self.max_num_seqs}) is allowed, so that every running sequence gets a token"
                )


@dataclass(frozen=True, slots=True)
class SequenceUpdate:
    """What a step did to one sequence. `finish` is set when token ids or lengths ended it."""

    sequence: Sequence
    scheduled: ScheduledSequence
    result: SequenceResult
    finish: Finish | None


class Scheduler:
    """Sequences enter by `add`, and leave by `apply` (complete) or `finish` (any other reason)."""

    def __init__(
        self, config: SchedulerConfig, kv: KvManager, queue: WaitingQueue | None = None
    ) -> None:
        self.config = config
        self.kv = kv
        self.max_sequence_tokens = min(config.max_model_len, kv.num_slots)
        self.num_preemptions = 0
        self._queue: WaitingQueue = FcfsQueue() if queue is None else queue
        self._running: dict[Sequence, None] = {}  # in order of admission
        self._followers: dict[str, list[Sequence]] = {}  # by request, see `add`
        self._num_live = 0

    @property
    def has_work(self) -> bool:
        return self._num_live > 0

    @property
    def num_running(self) -> int:
        return len(self._running)

    @property
    def num_waiting(self) -> int:
        return self._num_live - len(self._running)

    def fits(self, sequence: Sequence) -> bool:
        """Whether it could ever run: the prompt, and one token if any, fits context and pages."""
        num_output_tokens = 0 if sequence.params.max_tokens == 0 else 1
        return sequence.num_prompt_tokens + num_output_tokens <= self.max_sequence_tokens

    def add(self, sequence: Sequence) -> None:
        """Take a new sequence that fits. Those of one request come in the order of their indices.

        Sequences 1 to n-1 follow sequence 0: they join the queue, at its front, when the prompt is
        computed, and share its full pages then. (Without a prefix cache there is nothing to share.)
        """
        assert self.fits(sequence), f"{sequence.key} can never run"
        self._num_live += 1
        request = sequence.request
        if sequence.index > 0 and request.request_id in self._followers:
            self._followers[request.request_id].append(sequence)
            return
        leads = sequence.index == 0 and request.sampling_params.n > 1
        if leads and self.kv.enable_prefix_caching:
            self._followers[request.request_id] = []
        self._queue.append(sequence)

    def schedule(self) -> ScheduledStep:
        """The next step. Counts nothing as computed: `apply` does, when the step has run."""
        plan = StepPlan(self.config.max_num_batched_tokens, self.config.max_logit_rows)
        self._schedule_running(plan)
        self._admit_waiting(plan)
        return plan.step

    def apply(self, step: ScheduledStep, result: StepResult) -> list[SequenceUpdate]:
        """Book what `step` computed. Sequences that ended since it was scheduled are left out."""
        return [
            self._advance(scheduled, outcome)
            for scheduled, outcome in zip(step.sequences, result.results, strict=True)
            if scheduled.sequence.state is SequenceState.RUNNING
        ]

    def finish(self, sequence: Sequence) -> None:
        """End it in whatever state it is, and free its pages. Idempotent."""
        if sequence.is_finished:
            return
        self._running.pop(sequence, None)
        self._queue.discard(sequence)
        followers = self._followers.get(sequence.request.request_id, [])
        if sequence in followers:
            followers.remove(sequence)
        self.kv.free(sequence)
        sequence.state = SequenceState.FINISHED
        self._num_live -= 1
        self._release_followers(sequence)

    def _schedule_running(self, plan: StepPlan) -> None:
        """Decodes, and then the prompt that is still read, if any."""
        for sequence in list(self._running):
            if plan.is_full:
                break
            if sequence.state is SequenceState.RUNNING and self._make_room(sequence):
                plan.add(sequence)

    def _make_room(self, sequence: Sequence) -> bool:
        """Give it pages for all its tokens; false if that cost it its own place.

        A victim was admitted after all that stay, so it cannot be in the plan already.
        """
        while not self.kv.grow(sequence, sequence.num_tokens):
            victim = next(reversed(self._running))
            self._preempt(victim)
            if victim is sequence:
                return False
        return True

    def _preempt(self, sequence: Sequence) -> None:
        del self._running[sequence]
        self.kv.free(sequence)
        sequence.state = SequenceState.PREEMPTED
        sequence.num_preemptions += 1
        self.num_preemptions += 1
        self._queue.push_front(sequence)

    def _admit_waiting(self, plan: StepPlan) -> None:
        """Admit from the head of the queue while slots, budget and pages last."""
        while not plan.is_full and len(self._running) < self.config.max_num_seqs:
            sequence = self._queue.head()
            if sequence is None or self._awaits_prefix(sequence) or not self._allocate(sequence):
                return
            self._queue.discard(sequence)
            self._running[sequence] = None
            sequence.state = SequenceState.RUNNING
            plan.add(sequence)

    def _awaits_prefix(self, sequence: Sequence) -> bool:
        return not wants_prompt_logprobs(sequence) and self.kv.is_prefix_coming(sequence)

    def _allocate(self, sequence: Sequence) -> bool:
        """Pages for a newcomer. Prompt logprobs need every row, so the cache cannot serve them."""
        allocated = self.kv.allocate(
            sequence,
            num_reserved_pages=len(self._running),
            use_prefix=not wants_prompt_logprobs(sequence),
        )
        if allocated and sequence.num_preemptions == 0:
            sequence.num_cached_tokens = sequence.num_computed_tokens
        return allocated

    def _advance(self, scheduled: ScheduledSequence, result: SequenceResult) -> SequenceUpdate:
        sequence = scheduled.sequence
        sequence.num_computed_tokens = scheduled.start + scheduled.num_tokens
        self.kv.commit(sequence)
        if sequence.num_computed_tokens >= sequence.num_prompt_tokens:
            self._release_followers(sequence)
        if num_wanted_tokens(sequence) > 0:
            return SequenceUpdate(sequence, scheduled, result, None)
        if result.token_id is not None:
            sequence.token_ids.append(result.token_id)
        finish = finish_of(sequence, self.config.eos_token_ids, self.max_sequence_tokens)
        if finish is not None:
            self.finish(sequence)
        return SequenceUpdate(sequence, scheduled, result, finish)

    def _release_followers(self, leader: Sequence) -> None:
        if leader.index > 0:
            return
        for sequence in reversed(self._followers.pop(leader.request.request_id, [])):
            self._queue.push_front(sequence)
