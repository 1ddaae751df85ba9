"""Stand-ins for the parts around scheduler and engine: small, deterministic, honest about pages.

`FakeRunner` is a *context-hash model*: its next token is a hash of all tokens that it reads back
through the page tables, so a wrong, stale or foreign page changes the answer at once.
"""

from __future__ import annotations

import codecs
import math
import random
from collections.abc import Callable, Collection, Iterable
from hashlib import blake2b
from typing import TypedDict, Unpack

import numpy as np
import numpy.typing as npt

from octavo.core.outputs import SequenceOutput, TokenLogprobs
from octavo.core.page_groups import PageGroups
from octavo.core.pooling import Pooler, Pooling
from octavo.core.request import EngineRequest
from octavo.core.sampling_params import SamplingParams
from octavo.core.schedule import (
    Candidates,
    ScheduledSequence,
    ScheduledStep,
    SequenceResult,
    StepResult,
)
from octavo.core.sequence import Sequence
from octavo.kv.kv_manager import KvManager
from octavo.runner.pooler import HiddenPooler
from octavo.scheduler.config import SchedulerConfig
from octavo.scheduler.scheduler import Scheduler
from tests.fake_memory import FakeMemory

NOW = 1000.0
"""The time at which nothing happens: seconds, as `EngineRequest.arrival_time`."""
EMPTY_SLOT = -1
BYTE_VOCAB = 256
HIDDEN_SIZE = 8
POOLER = Pooler(method="mean", normalize=True, dimensions=HIDDEN_SIZE, hidden_size=HIDDEN_SIZE)
BOS, EOS = 256, 257
SPECIAL_TEXTS = {BOS: "<s>", EOS: "</s>"}


class FakeClock:
    """Stands still until told to `advance`."""

    def __init__(self, now: float = NOW) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


class FakeRunner:
    """`choose(context, seed)` gives the next token; by default a hash of both.

    Tokens lie in the pages of every group of layers, and every group must still hold what it sees.
    `fail_on` are numbers of steps (counted from 0) whose run raises.
    """

    def __init__(
        self,
        num_pages: int,
        page_tokens: int,
        choose: Callable[[list[int], int], int] | None = None,
        *,
        vocab_size: int = BYTE_VOCAB,
        fail_on: Iterable[int] = (),
        on_run: Callable[[ScheduledStep], None] | None = None,
        groups: PageGroups | None = None,
    ) -> None:
        self.page_tokens = page_tokens
        self.groups = groups or PageGroups(page_tokens=page_tokens)
        self.vocab_size = vocab_size
        self.steps: list[ScheduledStep] = []
        self._choose = choose or self.hash_token
        self._memory = FakeMemory(num_pages, page_tokens, EMPTY_SLOT, self.groups.num)
        self._fail_on = frozenset(fail_on)
        self._on_run = on_run
        self._pooler = HiddenPooler(np.ones(HIDDEN_SIZE, np.float32), 1e-6)

    def run(self, step: ScheduledStep) -> StepResult:
        self.steps.append(step)
        if self._on_run is not None:
            self._on_run(step)
        self._memory.do(step.moves)  # before anything can fail, as in the real one
        if len(self.steps) - 1 in self._fail_on:
            raise RuntimeError("secret detail of the runner")
        self._write(step)
        results = [self._result(scheduled) for scheduled in step.sequences]
        self._pooler.pool(self._hidden, step, results)
        return StepResult(results)

    def _hidden(self) -> npt.NDArray[np.float32]:
        """One row per token of the latest step, by the tokens up to it."""
        rows = []
        for scheduled in self.steps[-1].sequences:
            end = scheduled.start + scheduled.num_tokens
            context = self._read(scheduled.sequence.page_table, scheduled.start, end)
            for position in range(scheduled.start, end):
                seen = self.seen(context[: position + 1])
                digest = blake2b(repr(seen).encode(), digest_size=HIDDEN_SIZE)
                rows.append(list(digest.digest()))
        return np.array(rows, np.float32) - 100

    def hash_token(self, context: list[int], seed: int) -> int:
        digest = blake2b(repr((context, seed)).encode(), digest_size=4).digest()
        return int.from_bytes(digest, "little") % self.vocab_size

    def _write(self, step: ScheduledStep) -> None:
        """Put the step's tokens into their slots. Two writers of one slot are a broken schedule."""
        written: set[int] = set()
        for scheduled in step.sequences:
            for position in range(scheduled.start, scheduled.start + scheduled.num_tokens):
                for group in range(self.groups.num):
                    slot = self._memory.slot(scheduled.sequence.page_table, position, group)
                    assert slot not in written, "two tokens of one step share a slot"
                    written.add(slot)
                    self._memory.slots[slot] = scheduled.sequence.token_ids[position] + group

    def _read(self, page_table: list[int], start: int, end: int) -> list[int]:
        """What the step's tokens [start, end) see of their context, alike in all groups."""
        context = [EMPTY_SLOT] * end
        for group in range(self.groups.num):
            first = max(0, start - self.groups.windows[group] + 1)
            seen = range(first if self.groups.windows[group] else 0, end)
            marks = [mark - group for mark in self._memory.read(page_table, seen, group)]
            assert group == 0 or marks == context[seen.start :], "two groups disagree"
            context[seen.start :] = marks
        return context

    def seen(self, context: list[int]) -> list[int]:
        """The part of a context that a model of such layers sees from its end."""
        return context[-self.groups.windows[0] :]

    def _result(self, scheduled: ScheduledSequence) -> SequenceResult:
        sequence = scheduled.sequence
        end = scheduled.start + scheduled.num_tokens
        context = self._read(sequence.page_table, scheduled.start, end)
        result = SequenceResult()
        if scheduled.samples and sequence.params.use_beam_search:
            result.candidates = fake_candidates(self.seen(context), self.vocab_size)
        elif scheduled.samples:
            seed = 0 if sequence.params.is_greedy else sequence.seed
            if sequence.params.mirostat:  # what is drawn depends on what it has come to
                result.mirostat_mu = (sequence.mirostat_mu or 0.0) + len(context) % 7
                seed += int(sequence.mirostat_mu or 0)
            result.token_id = self._choose(self.seen(context), seed)
            if sequence.params.logprobs is not None or sequence.params.picks_best:
                result.logprobs = fake_logprobs(self.seen(context), result.token_id)
        if scheduled.wants_prompt_logprobs:
            result.prompt_logprobs = [
                fake_logprobs(self.seen(context[: position + 1]), sequence.token_ids[position + 1])
                for position in range(scheduled.start, end)
                if position + 1 < sequence.num_prompt_tokens
            ]
        return result


def fake_logprobs(context: list[int], token_id: int) -> TokenLogprobs:
    """Log probabilities that depend on the whole context, so that misplaced ones show."""
    digest = blake2b(repr((context, token_id)).encode(), digest_size=4).digest()
    return TokenLogprobs(token_id, -int.from_bytes(digest, "little") / 2**32, 1, [], [])


def fake_candidates(context: list[int], vocab_size: int) -> Candidates:
    """Enough for a few beams; they depend on the whole context and come with falling scores."""
    draw = random.Random(repr(context))
    token_ids = draw.sample(range(vocab_size), 12)
    return Candidates(token_ids, sorted((math.log(draw.random()) for _ in token_ids), reverse=True))


class ByteDetokenizer:
    """Incremental UTF-8: whole characters only, one replacement character per broken sequence."""

    def __init__(self, *, skip_special_tokens: bool, shown_ids: Collection[int] = ()) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._skips_special = skip_special_tokens
        self._shown_ids = shown_ids

    def push(self, token_id: int) -> str:
        if token_id < BYTE_VOCAB:
            return self._decoder.decode(bytes([token_id]))
        is_hidden = self._skips_special and token_id not in self._shown_ids
        return "" if is_hidden else SPECIAL_TEXTS[token_id]

    def flush(self) -> str:
        return self._decoder.decode(b"", final=True)


class ByteTokenizer:
    """One token per byte of UTF-8, and BOS and EOS, which have no text."""

    vocab_size = BYTE_VOCAB + 2
    eos_token_id = EOS
    stop_token_ids = frozenset({EOS})
    fim_token_ids: tuple[int, int, int] | None = None

    def __init__(self, *, bos_token_id: int | None = BOS) -> None:
        self.bos_token_id = bos_token_id
        self.adds_bos = bos_token_id is not None
        self.num_encoded_chars = 0

    def encode(
        self, text: str, *, add_special_tokens: bool, parse_special: bool = False
    ) -> list[int]:
        self.num_encoded_chars += len(text)
        ids = list(text.encode())
        if parse_special and text.startswith(SPECIAL_TEXTS[BOS]):
            ids = [BOS, *text[len(SPECIAL_TEXTS[BOS]) :].encode()]
        if add_special_tokens and self.bos_token_id is not None and ids[:1] != [BOS]:
            ids.insert(0, self.bos_token_id)
        return ids

    def decode(self, ids: list[int], *, skip_special_tokens: bool = True) -> str:
        detokenizer = self.detokenizer(skip_special_tokens=skip_special_tokens)
        return "".join(map(detokenizer.push, ids)) + detokenizer.flush()

    def token_bytes(self, token_id: int) -> bytes:
        return bytes([token_id]) if token_id < BYTE_VOCAB else b""

    def token_text(self, token_id: int) -> str:
        return chr(token_id) if token_id < BYTE_VOCAB else SPECIAL_TEXTS[token_id]

    def is_special(self, token_id: int) -> bool:
        return token_id >= BYTE_VOCAB

    def detokenizer(
        self,
        *,
        skip_special_tokens: bool,
        preceding_id: int | None = None,  # noqa: ARG002  (bytes mean the same after anything)
        shown_ids: Collection[int] = (),
    ) -> ByteDetokenizer:
        return ByteDetokenizer(skip_special_tokens=skip_special_tokens, shown_ids=shown_ids)


class RequestFields(TypedDict, total=False):
    priority: int
    tenant: str
    tenant_weight: float
    deadline: float | None
    pooling: Pooling | None


def make_request(
    prompt: str | list[int],
    params: SamplingParams | None = None,
    *,
    request_id: str = "r",
    cache_salt: str = "",
    **fields: Unpack[RequestFields],
) -> EngineRequest:
    return EngineRequest(
        request_id=request_id,
        prompt_token_ids=list(prompt.encode()) if isinstance(prompt, str) else prompt,
        sampling_params=params or SamplingParams(temperature=0.0, max_tokens=8),
        arrival_time=NOW,
        cache_salt=cache_salt,
        **fields,
    )


def make_sequence(
    prompt: str | list[int],
    params: SamplingParams | None = None,
    *,
    request_id: str = "r",
    index: int = 0,
    cache_salt: str = "",
    **fields: Unpack[RequestFields],
) -> Sequence:
    request = make_request(prompt, params, request_id=request_id, cache_salt=cache_salt, **fields)
    ids = request.prompt_token_ids
    return Sequence(request, index, list(ids), len(ids), seed=index)


class SchedulerOptions(TypedDict, total=False):
    reserve_high_priority: float
    max_step_seconds: float | None


def make_scheduler(
    *,
    num_pages: int = 64,
    page_tokens: int = 4,
    max_num_seqs: int = 8,
    max_num_batched_tokens: int = 16,
    max_model_len: int = 10_000,
    max_logit_rows: int | None = None,
    enable_prefix_caching: bool = True,
    eos_token_ids: frozenset[int] = frozenset(),
    num_swap_slots: int = 0,
    windows: tuple[int, ...] = (0,),
    **options: Unpack[SchedulerOptions],
) -> Scheduler:
    config = SchedulerConfig(
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=max_num_batched_tokens,
        max_model_len=max_model_len,
        max_logit_rows=max_num_batched_tokens if max_logit_rows is None else max_logit_rows,
        eos_token_ids=eos_token_ids,
        page_move_seconds=1e-9 if num_swap_slots else math.inf,
        **options,
    )
    kv = KvManager(
        num_pages,
        page_tokens,
        enable_prefix_caching,
        groups=PageGroups(windows, page_tokens, max_num_batched_tokens),
        num_swap_slots=num_swap_slots,
    )
    return Scheduler(config, kv)


def joined_text(outputs: Iterable[SequenceOutput]) -> str:
    return "".join(output.text for output in outputs)


def joined_ids(outputs: Iterable[SequenceOutput]) -> list[int]:
    return [token_id for output in outputs for token_id in output.token_ids]
