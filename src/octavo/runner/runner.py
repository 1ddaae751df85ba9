"""The runner: one step from what the scheduler wants to what came out. Fill, run, sample, pool.

Knows no requests, no pages' owners and no executable's kind.
"""

from __future__ import annotations

import time

from octavo.core.model_config import ModelConfig
from octavo.core.page_groups import PageGroups
from octavo.core.request import EngineRequest
from octavo.core.sampling_params import SamplingParams
from octavo.core.schedule import ScheduledSequence, ScheduledStep, StepResult
from octavo.core.sequence import Sequence
from octavo.ops.program import Program
from octavo.runner.executable import Executable
from octavo.runner.page_memory import PageMemory
from octavo.runner.pooler import HiddenPooler
from octavo.runner.step import Step
from octavo.sampling.masks import MaskSource
from octavo.sampling.sampler import Sampler


class Runner:
    """Owns the step buffers, the executable, the pages' memory and the sampler of one model.

    `stop_token_ids` are the model's own; the sampler keeps them out of answers that must go on.
    """

    def __init__(
        self,
        model: ModelConfig,
        num_pages: int,
        step: Step,
        executable: Executable,
        pages: PageMemory,
        sampler: Sampler,
        pooler: HiddenPooler,
        stop_token_ids: frozenset[int],
    ) -> None:
        self.model = model
        self.num_pages = num_pages
        self._step = step
        self._executable: Executable | None = executable
        self._pages: PageMemory | None = pages
        self._sampler = sampler
        self._stop_token_ids = stop_token_ids
        self._pooler = pooler
        self.mask_source: MaskSource | None = None
        """Who computes masks while the program runs; None if no sequence asks for one."""

    @property
    def max_model_len(self) -> int:
        return self._step.limits.max_context_tokens

    @property
    def max_logit_rows(self) -> int:
        return self._step.limits.max_logit_rows

    @property
    def groups(self) -> PageGroups:
        return self.pages.groups

    @property
    def num_swap_slots(self) -> int:
        return self.pages.num_swap_slots

    @property
    def pages(self) -> PageMemory:
        if self._pages is None:
            raise ValueError("the runner is closed")
        return self._pages

    @property
    def program(self) -> Program:
        return self._open_executable().program

    def run(self, scheduled: ScheduledStep) -> StepResult:
        """Move pages, and compute one step; one result per scheduled sequence, in order."""
        start = time.thread_time()
        moves_start = time.perf_counter()
        self.pages.do(scheduled.moves)
        moves_cpu_seconds = time.thread_time() - start
        move_seconds = time.perf_counter() - moves_start
        if not scheduled.sequences:
            return StepResult([], native_cpu_seconds=moves_cpu_seconds, move_seconds=move_seconds)
        pending = None if self.mask_source is None else self.mask_source.begin(scheduled)
        self._step.fill(scheduled)
        start = time.thread_time()
        executable = self._open_executable()
        logits = executable.run()
        program_cpu_seconds = time.thread_time() - start
        masks = None if pending is None else pending.wait()
        results = self._sampler.sample(logits, scheduled, self._stop_token_ids, masks)
        self._pooler.pool(executable.hidden, scheduled, results)
        return StepResult(
            results,
            self._sampler.num_undefined_rows,
            moves_cpu_seconds + program_cpu_seconds + self._sampler.native_cpu_seconds,
            move_seconds,
        )

    def profile(self, num_tokens: int) -> list[float]:
        """Seconds of each instruction, in one step of one new sequence of so many tokens.

        Overwrites pages: for a runner that serves nobody. Raises `ValueError` if it does not fit.
        """
        executable = self._open_executable()
        self._step.fill(_sample_step(num_tokens, self.groups))
        executable.run()
        return executable.profile()

    def close(self) -> None:
        """Give memory and threads back as soon as nobody else holds them."""
        self._executable = None
        self._pages = None

    def _open_executable(self) -> Executable:
        if self._executable is None:
            raise ValueError("the runner is closed")
        return self._executable


def _sample_step(num_tokens: int, groups: PageGroups) -> ScheduledStep:
    token_ids = [0] * num_tokens
    request = EngineRequest(
        request_id="profile",
        prompt_token_ids=token_ids,
        sampling_params=SamplingParams(),
        arrival_time=0.0,
    )
    sequence = Sequence(
        request=request, index=0, token_ids=token_ids, num_prompt_tokens=num_tokens, seed=0
    )
    sequence.page_table = list(range(groups.num_stripes(num_tokens) * groups.num))
    one = ScheduledSequence(sequence=sequence, start=0, num_tokens=num_tokens, samples=True)
    return ScheduledStep([one], num_tokens)
