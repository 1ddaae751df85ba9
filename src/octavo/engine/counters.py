"""What the engine has done since it started, in numbers. Decides nothing."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass

from octavo.core.schedule import ScheduledStep, StepResult
from octavo.scheduler.scheduler import SequenceUpdate

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class EngineCounts:
    """As `EngineStats` names them."""

    num_steps: int = 0
    num_prompt_tokens: int = 0
    num_generation_tokens: int = 0
    num_step_tokens: int = 0
    num_undefined_rows: int = 0
    step_seconds: float = 0.0
    python_cpu_seconds: float = 0.0


class Counters:
    """Lives in the thread that steps: it counts that thread's processor time."""

    def __init__(self) -> None:
        self.totals = EngineCounts()
        self._counted_cpu_seconds = 0.0

    def count_step(self, step: ScheduledStep, seconds: float) -> None:
        self.totals.num_steps += 1
        self.totals.num_step_tokens += step.num_tokens
        self.totals.step_seconds += max(0.0, seconds)

    def count_result(self, result: StepResult) -> None:
        """A broken model file makes undefined rows in every step; the log says it once."""
        if result.num_undefined_rows and not self.totals.num_undefined_rows:
            logger.warning("a token was drawn from logits that are all NaN or -inf")
        self.totals.num_undefined_rows += result.num_undefined_rows
        self.totals.python_cpu_seconds -= result.native_cpu_seconds

    def count_tokens(self, update: SequenceUpdate, now: float) -> None:
        """A prompt counts when its first token is drawn, and once for all n sequences."""
        sequence, scheduled = update.sequence, update.scheduled
        if update.result.token_id is not None:
            self.totals.num_generation_tokens += 1
        num_computed = scheduled.start + scheduled.num_tokens
        if sequence.first_token_time or num_computed < sequence.num_prompt_tokens:
            return
        sequence.first_token_time = now
        if sequence.index == 0:
            self.totals.num_prompt_tokens += sequence.num_prompt_tokens

    def count_answer(self, num_tokens: int) -> None:
        """Of a request that says all its tokens at its end."""
        self.totals.num_generation_tokens += num_tokens

    def count_cpu(self) -> None:
        """Of this thread since the last step, with what was done between steps. (The process's time
        would not do: the system is late in adding what other threads are just using.) Before the
        first step it loaded the model, or did not exist: that counts, as start-up."""
        now = time.thread_time()
        self.totals.python_cpu_seconds += now - self._counted_cpu_seconds
        self._counted_cpu_seconds = now
