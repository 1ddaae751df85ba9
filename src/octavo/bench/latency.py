"""Times of single steps: prompts of a given length, then decodes at that context, by batch size.

Steps run on a `Runner`: filling, computing and sampling count; scheduling and detokenising do not.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable
from collections.abc import Sequence as Items
from dataclasses import dataclass, field
from typing import Protocol

from octavo.core.request import EngineRequest
from octavo.core.sampling_params import SamplingParams
from octavo.core.schedule import ScheduledSequence, ScheduledStep, StepResult
from octavo.core.sequence import PAGE_TOKENS, Sequence

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True, order=True)
class Case:
    """`context` tokens of prompt in each of `batch` sequences."""

    context: int
    batch: int


@dataclass(slots=True)
class CaseTimes:
    """Seconds. Prefill is the whole batch's prompts, once per repeat; decode one step per item."""

    case: Case
    prefill_seconds: list[float] = field(default_factory=list)
    decode_seconds: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a runner holds, and how many prompt tokens a case may cost."""

    max_model_len: int
    max_num_seqs: int
    num_pages: int
    max_prompt_tokens: int
    num_page_groups: int = 1


def plan_cases(
    contexts: Iterable[int], batches: Iterable[int], num_decodes: int, limits: Limits
) -> tuple[list[Case], list[str]]:
    """The cases that fit, ascending, and for each other one a sentence why not.

    A context that only lacks room for the decodes is shortened by them.
    """
    cases, refused = set(), []
    for context in sorted(set(contexts)):
        for batch in sorted(set(batches)):
            case = Case(min(context, limits.max_model_len - num_decodes), batch)
            reason = _refusal(context, case, num_decodes, limits)
            if reason:
                refused.append(f"context {context}, batch {batch}: {reason}")
            else:
                cases.add(case)
    return sorted(cases), refused


def _refusal(context: int, case: Case, num_decodes: int, limits: Limits) -> str:
    stripes = -(-(case.context + num_decodes) // PAGE_TOKENS)
    pages = case.batch * stripes * limits.num_page_groups
    if case.context < 1 or context > limits.max_model_len:
        return f"longer than the model's {limits.max_model_len} tokens"
    if case.batch > limits.max_num_seqs:
        return f"more than --max-num-seqs {limits.max_num_seqs}"
    if pages > limits.num_pages:
        return f"{pages} pages of key/value memory; there are {limits.num_pages}"
    if case.batch > 1 and case.batch * case.context > limits.max_prompt_tokens:
        return f"{case.batch * case.context} prompt tokens; --max-prompt-tokens allows fewer"
    return ""


class StepRunner(Protocol):
    """Who computes: `octavo.runner.runner.Runner`."""

    def run(self, scheduled: ScheduledStep, /) -> StepResult: ...


class LatencyBench:
    """Measures cases on a runner that serves nobody else."""

    def __init__(
        self,
        runner: StepRunner,
        vocab_size: int,
        max_step_tokens: int,
        clock: Clock = time.perf_counter,
        num_page_groups: int = 1,
    ) -> None:
        self._runner = runner
        self._vocab_size = vocab_size
        self._max_step_tokens = max_step_tokens
        self._clock = clock
        self._num_page_groups = num_page_groups

    def measure(self, case: Case, num_decodes: int, repeats: int, warmups: int = 1) -> CaseTimes:
        """All times of a case. Warm-ups are not counted: the first run touches memory first."""
        times = CaseTimes(case)
        for repeat in range(-warmups, repeats):
            sequences = make_sequences(case, num_decodes, self._vocab_size, self._num_page_groups)
            prefill = self._prefill(sequences)
            decodes = [self._decode(sequences) for _ in range(num_decodes)]
            if repeat >= 0:
                times.prefill_seconds.append(prefill)
                times.decode_seconds.extend(decodes)
        return times

    def _prefill(self, sequences: Items[Sequence]) -> float:
        start = self._clock()
        for step in prompt_steps(sequences, self._max_step_tokens):
            self._run(step)
        return self._clock() - start

    def _decode(self, sequences: Items[Sequence]) -> float:
        start = self._clock()
        self._run(decode_step(sequences))
        return self._clock() - start

    def _run(self, step: ScheduledStep) -> None:
        results = self._runner.run(step).results
        for scheduled, result in zip(step.sequences, results, strict=True):
            scheduled.sequence.num_computed_tokens += scheduled.num_tokens
            if result.token_id is not None:
                scheduled.sequence.token_ids.append(result.token_id)


def make_sequences(
    case: Case, num_decodes: int, vocab_size: int, num_page_groups: int = 1
) -> list[Sequence]:
    """Random prompts, each with pages of its own for prompt and answer; windows give none back."""
    pages = -(-(case.context + num_decodes) // PAGE_TOKENS) * num_page_groups
    draw = random.Random(case.context)
    sequences = []
    for index in range(case.batch):
        ids = [draw.randrange(vocab_size) for _ in range(case.context)]
        request = EngineRequest(
            request_id=f"bench-{index}",
            prompt_token_ids=ids,
            sampling_params=SamplingParams(temperature=0.0, max_tokens=None, ignore_eos=True),
            arrival_time=0.0,
        )
        table = list(range(index * pages, (index + 1) * pages))
        sequences.append(Sequence(request, 0, list(ids), case.context, seed=0, page_table=table))
    return sequences


def prompt_steps(sequences: Items[Sequence], max_step_tokens: int) -> Iterable[ScheduledStep]:
    """Steps that compute all prompts, full but for the last, one sequence after the other."""
    step = ScheduledStep()
    for sequence in sequences:
        start = 0
        while start < sequence.num_prompt_tokens:
            room = max_step_tokens - step.num_tokens
            num_tokens = min(room, sequence.num_prompt_tokens - start)
            is_last = start + num_tokens == sequence.num_prompt_tokens
            step.sequences.append(ScheduledSequence(sequence, start, num_tokens, samples=is_last))
            step.num_tokens += num_tokens
            start += num_tokens
            if step.num_tokens == max_step_tokens:
                yield step
                step = ScheduledStep()
    if step.sequences:
        yield step


def decode_step(sequences: Items[Sequence]) -> ScheduledStep:
    """One token for each: the last one that it has."""
    ones = [ScheduledSequence(one, one.num_tokens - 1, 1, samples=True) for one in sequences]
    return ScheduledStep(ones, len(ones))
