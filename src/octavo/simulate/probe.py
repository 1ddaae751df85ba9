"""Samples for a profile from a running server: what its clients see, alone and in crowds.

A crowd of equal size decodes together, so that the usual time between two tokens is a step of so
many rows; the first token of a request alone comes after the steps of its prompt, and what the
server needs around them. All of the server's own costs are in these times. Knows no profile's form.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from octavo.bench.event_stream import HttpError, get
from octavo.bench.latency import Case, decode_step, make_sequences, prompt_steps
from octavo.bench.lengths import Fixed
from octavo.bench.load import LoadError, Outcome, Server, run_load
from octavo.bench.workload import LoadRequest, Workload
from octavo.core.schedule import load_of
from octavo.simulate.measured import Sample

PAGE_INFO = re.compile(r"^vllm:cache_config_info\{.*", re.MULTILINE)
NUM_PAGES = re.compile(r'num_gpu_blocks="(\d+)"')
PAGE_WINDOWS = re.compile(r'page_windows="([\d,]+)"')


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """`crowds` and `contexts` (words of prompt) of decodes; `prompts` (words) that come alone.
    `max_step_tokens` is the server's own bound. A prompt of one word tells a request's cost, since
    its step is that of a decode; prompts as long as a crowd is large tell that of drawing a token.

    All is measured once in each of `rounds`, and medians are taken over these: what else a machine
    does comes and goes, and spoils some of all rather than all of some.
    """

    crowds: Sequence[int] = (1, 2, 4, 8, 16, 32)
    contexts: Sequence[int] = (16, 160)
    prompts: Sequence[int] = (1, 16, 32, 64, 128, 256, 512, 768)
    num_answer_tokens: int = 24
    rounds: int = 3
    max_step_tokens: int = 512

    @property
    def cases(self) -> list[tuple[int, int]]:
        """(Words of prompt, crowd); a crowd of 0 is a prompt alone."""
        decodes = [(words, crowd) for words in self.contexts for crowd in self.crowds]
        return decodes + [(words, 0) for words in self.prompts]


async def probe(
    server: Server, plan: Plan, on_measured: Callable[[int, int], None] | None = None
) -> list[Sample]:
    """Raises LoadError when the server refuses or fails a request."""
    found = []
    for number in range(plan.rounds):
        found.append(await probe_once(server, plan, number))
        if on_measured is not None:
            on_measured(number + 1, plan.rounds)
    return middle(found)


async def probe_once(server: Server, plan: Plan, number: int) -> list[Sample]:
    """One round; its number makes the prompts new. The first case is done twice: it is slow."""
    await _decodes(server, plan, *plan.cases[0], seed=2 * number)
    return [
        await (
            _decodes(server, plan, words, crowd, seed=2 * number + 1)
            if crowd
            else _prompt(server, plan, words, seed=number)
        )
        for words, crowd in plan.cases
    ]


def middle(rounds: Sequence[Sequence[Sample]]) -> list[Sample]:
    """The median of each case over the rounds."""
    return [
        replace(same[0], seconds=median(one.seconds for one in same))
        for same in zip(*rounds, strict=True)
    ]


class PageFacts(NamedTuple):
    """None if the server does not tell. `windows`: of the groups of layers that pages are of."""

    num_pages: int | None
    windows: list[int]


async def page_facts(server: Server) -> PageFacts:
    """As the server's metrics tell."""
    try:
        text = (await get(server.target("/metrics"), server.headers)).decode("utf-8", "replace")
    except (HttpError, OSError):
        text = ""
    info = PAGE_INFO.search(text)
    return page_facts_of(info[0] if info else "")


def page_facts_of(info: str) -> PageFacts:
    """What the line of the metric `vllm:cache_config_info` says."""
    pages, windows = NUM_PAGES.search(info), PAGE_WINDOWS.search(info)
    return PageFacts(
        int(pages[1]) if pages else None,
        [int(window) for window in windows[1].split(",") if window] if windows else [0],
    )


async def _decodes(server: Server, plan: Plan, words: int, crowd: int, seed: int) -> Sample:
    num_prompt_steps = -(-crowd * words // plan.max_step_tokens)
    num_answer_tokens = plan.num_answer_tokens + num_prompt_steps
    requests = _requests(words, num_answer_tokens, crowd, seed)
    outcomes = _checked(await run_load(server, requests))
    gaps = together(outcomes)
    if not gaps or median(gaps) <= 0.0:
        raise LoadError(f"{server.base_url} sends its answers at once: no time between tokens")
    num_prompt = round(median(one.num_prompt_tokens for one in outcomes))
    case = Case(num_prompt + num_answer_tokens - plan.num_answer_tokens // 2, crowd)
    return Sample([load_of(decode_step(make_sequences(case, 0, vocab_size=2)))], median(gaps))


async def _prompt(server: Server, plan: Plan, words: int, seed: int) -> Sample:
    (outcome,) = _checked(await run_load(server, _requests(words, 1, 1, seed)))
    case = Case(outcome.num_prompt_tokens, 1)
    steps = prompt_steps(make_sequences(case, 0, vocab_size=2), plan.max_step_tokens)
    return Sample([load_of(step) for step in steps], outcome.ttft, with_request=True)


def together(outcomes: Sequence[Outcome]) -> list[float]:
    """Seconds between the tokens that came while all of a crowd, sent at once, were answering: not
    in steps in which others' prompts were read."""
    start = max(one.ttft for one in outcomes)
    end = min(one.latency for one in outcomes)
    return [
        after - before
        for one in outcomes
        for before, after in pairwise(one.arrival_seconds)
        if start <= before and after <= end
    ]


def _requests(words: int, num_answer_tokens: int, number: int, seed: int) -> list[LoadRequest]:
    """New words each time: the prefix cache must not know them."""
    return Workload(
        num_prompts=number,
        input_lengths=Fixed(words),
        output_lengths=Fixed(num_answer_tokens),
        seed=1_000_003 * words + 1009 * number + seed,
    ).requests()


def _checked(outcomes: Sequence[Outcome]) -> Sequence[Outcome]:
    for one in outcomes:
        if one.error:
            raise LoadError(f"the server failed to answer: {one.error}")
    return outcomes
