"""From a step's logits to its results: what each sequence asks for, as flat rows for native code.

Knows sequences and their parameters; the arithmetic is in `kernels/native/runtime/sampler.h`.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator, Mapping
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass, field

import numpy as np

from octavo.core.outputs import TokenLogprobs
from octavo.core.sampling_params import SamplingParams
from octavo.core.schedule import Candidates, ScheduledSequence, ScheduledStep, SequenceResult
from octavo.core.sequence import Sequence
from octavo.kernels import _native as native
from octavo.sampling.allowed_tokens import AllowedTokens
from octavo.sampling.filters import FilterBatch, FilterRows, bad_word_ends, next_mirostat_mu
from octavo.sampling.masks import TokenMasks, num_mask_words
from octavo.sampling.processors.contract import LogitsProcessor
from octavo.sampling.processors.guarded import GuardedProcessors, ProcessorFailed

_ROW = struct.Struct(native.SAMPLE_ROW_FORMAT)
_SEED_MASK = 2**64 - 1
_DRAW = -1
_CANDIDATES = -2
_NO_LOGPROBS = -1
_BAN = float("-inf")
_NO_IDS = np.empty(0, np.int32)
_NO_VALUES = np.empty(0, np.float32)


@dataclass(slots=True)
class _Batch:
    """The arrays of one native call, under construction. Ranges index `histories` and `edit_*`."""

    rows: list[bytes] = field(default_factory=list)
    histories: list[native.I32] = field(default_factory=list)
    num_history_tokens: int = 0
    edit_ids: list[native.I32] = field(default_factory=list)
    edit_values: list[native.F32] = field(default_factory=list)
    num_edits: int = 0
    errors: dict[tuple[str, int], str] = field(default_factory=dict)
    """By sequence, why its row is not what was asked for."""
    filters: FilterBatch = field(default_factory=FilterBatch)
    masks: TokenMasks | None = None

    def add_history(self, tokens: native.I32, num_prompt_tokens: int) -> tuple[int, int, int]:
        begin = self.num_history_tokens
        self.histories.append(tokens)
        self.num_history_tokens += len(tokens)
        return begin, begin + num_prompt_tokens, self.num_history_tokens

    def add_edits(
        self, ids: SequenceOf[int] | native.I32, values: SequenceOf[float] | native.F32
    ) -> None:
        self.edit_ids.append(np.asarray(ids, np.int32))
        self.edit_values.append(np.asarray(values, np.float32))
        self.num_edits += len(ids)

    def mask_of(self, sequence: Sequence) -> int:
        """The row of its mask; -1 if every token is allowed."""
        return -1 if self.masks is None else self.masks.rows.get(sequence.key, -1)

    def edits(self) -> tuple[native.I32, native.F32]:
        return (
            np.concatenate([_NO_IDS, *self.edit_ids]),
            np.concatenate([_NO_VALUES, *self.edit_values]),
        )

    def history(self) -> native.I32:
        return np.concatenate(self.histories) if self.histories else np.empty(0, np.int32)


@dataclass(slots=True)
class _History:
    """A sequence's tokens as an array that grows with their list. (A beam that moves into another
    sequence brings a list of its own.)"""

    token_ids: list[int]
    buffer: native.I32
    num_tokens: int = 0

    def tokens(self) -> native.I32:
        ids = self.token_ids
        if len(ids) > len(self.buffer):
            self.buffer = np.resize(self.buffer, 2 * len(ids))
        self.buffer[self.num_tokens : len(ids)] = ids[self.num_tokens :]
        self.num_tokens = len(ids)
        return self.buffer[: self.num_tokens]


class Sampler:
    """Chooses the next tokens. A row's token depends on its logits, its sequence's parameters,
    seed and tokens, and on nothing else: not on the batch, the threads or the instruction set.

    Draws use the number Philox4x32-10 gives for (seed, position). The order is fixed, and written
    in `docs/sampling.md`. For a beam nothing is drawn.
    """

    def __init__(
        self,
        vocab_size: int,
        pool: native.ThreadPool,
        level: str | None = None,
        processors: Mapping[str, LogitsProcessor] | None = None,
    ) -> None:
        self.vocab_size = vocab_size
        self._processors = GuardedProcessors(processors or {})
        self.num_undefined_rows = 0
        """Drawn rows of the latest step without a logit above -inf. They got token 0."""
        self.native_cpu_seconds = 0.0
        """Processor time of this thread in native code for the latest step."""
        self._native = native.Sampler(pool, level or native.isa_levels()[0], vocab_size)
        self._histories: dict[tuple[str, int], _History] = {}
        self._filters = FilterRows()
        self._allowed = AllowedTokens(vocab_size)
        self._no_masks = np.empty((0, num_mask_words(vocab_size)), np.uint32)

    def sample(
        self,
        logits: native.F32,
        step: ScheduledStep,
        stop_token_ids: frozenset[int],
        masks: TokenMasks | None = None,
    ) -> list[SequenceResult]:
        """One result per scheduled sequence.

        `logits` float32 [rows, vocab_size]; for each sequence in order: all its rows when it wants
        prompt log probabilities, else its last row when it samples, else none. `stop_token_ids`
        are the model's own, kept out of answers shorter than min_tokens. `masks` come before
        everything else, and change no log probability.
        """
        masks = self._allowed.joined(masks, step)
        batch = _Batch(masks=masks, filters=self._filters.start_step())
        histories: dict[tuple[str, int], _History] = {}
        row = 0
        for scheduled in step.sequences:
            if scheduled.wants_prompt_logprobs:
                self._add_scores(batch, scheduled, row)
                row += scheduled.num_tokens
            elif scheduled.samples:
                row += 1
            if scheduled.samples:
                self._add_draw(
                    batch, scheduled.sequence, row - 1, logits, stop_token_ids, histories
                )
        self._histories = histories
        return self._run(logits, batch, step)

    def _add_scores(self, batch: _Batch, scheduled: ScheduledSequence, first_row: int) -> None:
        num_top = scheduled.sequence.params.prompt_logprobs or 0
        for i, target in enumerate(_scored_tokens(scheduled)):
            batch.rows.append(
                _ROW.pack(0, 0, 1, 0, 0, 1, 0, 0, first_row + i, target, 0, num_top, *(0,) * 5, -1)
            )

    def _add_draw(
        self,
        batch: _Batch,
        sequence: Sequence,
        row: int,
        logits: native.F32,
        stop_token_ids: frozenset[int],
        histories: dict[tuple[str, int], _History],
    ) -> None:
        params = sequence.params
        target, num_top = _DRAW, _num_logprobs(params)
        if params.use_beam_search:
            target, num_top = _CANDIDATES, _num_candidates(params, stop_token_ids)
        history = (0, 0, 0)
        if _has_penalties(params) or params.has_dry:
            kept = histories[sequence.key] = self._history(sequence)
            history = batch.add_history(kept.tokens(), sequence.num_prompt_tokens)
        self._filters.add(batch.filters, sequence, len(batch.rows), history)
        edits_begin = batch.num_edits
        if params.logits_processors:
            self._add_processed(batch, sequence, logits[row])
        if params.logit_bias:
            batch.add_edits(list(params.logit_bias), list(params.logit_bias.values()))
        if params.min_tokens > sequence.num_output_tokens:
            bans = stop_token_ids.union(params.stop_token_ids or ())
            known = [token for token in bans if token < self.vocab_size]
            batch.add_edits(known, [_BAN] * len(known))
        for token in bad_word_ends(sequence):
            batch.add_edits((token,), (_BAN,))
        batch.rows.append(
            _ROW.pack(
                sequence.seed & _SEED_MASK,
                len(sequence.token_ids),
                params.top_p,
                params.min_p,
                0.0 if params.is_greedy else params.temperature,
                params.repetition_penalty,
                params.presence_penalty,
                params.frequency_penalty,
                row,
                target,
                params.top_k,
                num_top,
                *history,
                edits_begin,
                batch.num_edits,
                batch.mask_of(sequence),
            )
        )

    def _add_processed(self, batch: _Batch, sequence: Sequence, row: native.F32) -> None:
        """What the sequence's processors change in its row; without them, should they fail."""
        calls = sequence.params.logits_processors
        assert calls is not None
        tokens = np.array(sequence.token_ids, np.int32)
        try:
            batch.add_edits(
                *self._processors.changed(row, tokens, sequence.num_prompt_tokens, calls)
            )
        except ProcessorFailed as failure:
            batch.errors[sequence.key] = str(failure)

    def _history(self, sequence: Sequence) -> _History:
        """The array of the last step when these tokens were in it, else a new one."""
        known = self._histories.get(sequence.key)
        if known is not None and known.token_ids is sequence.token_ids:
            return known
        return _History(sequence.token_ids, np.empty(0, np.int32))

    def _run(self, logits: native.F32, batch: _Batch, step: ScheduledStep) -> list[SequenceResult]:
        arrays = (
            b"".join(batch.rows),
            batch.history(),
            *batch.edits(),
            self._no_masks if batch.masks is None else batch.masks.words,
        )
        filters = batch.filters.native()
        start = time.thread_time()
        token_ids, ranks, logprobs, top_ids, top_logprobs, num_undefined = self._native.sample(
            logits, *arrays, filters=filters
        )
        self.native_cpu_seconds = time.thread_time() - start
        self.num_undefined_rows = num_undefined
        entries = _Entries(
            token_ids.tolist(), ranks.tolist(), logprobs.tolist(), top_ids, top_logprobs
        )
        entries.errors = batch.errors
        if filters is not None:
            surprises = filters.surprises
            entries.surprises = {i: surprises[at] for i, at in batch.filters.surprise_of.items()}
        rows = iter(range(len(batch.rows)))
        return [_result(scheduled, entries, rows) for scheduled in step.sequences]


@dataclass(slots=True)
class _Entries:
    """What native code returned, one entry per row."""

    token_ids: list[int]
    ranks: list[int]
    logprobs: list[float]
    top_ids: native.I32
    top_logprobs: native.F64
    surprises: dict[int, float] = field(default_factory=dict)
    errors: dict[tuple[str, int], str] = field(default_factory=dict)

    def logprobs_of(self, row: int, num_top: int) -> TokenLogprobs:
        return TokenLogprobs(
            self.token_ids[row], self.logprobs[row], self.ranks[row], *self.top(row, num_top)
        )

    def top(self, row: int, num_top: int) -> Candidates:
        ids = self.top_ids[row, :num_top]
        count = int(np.count_nonzero(ids >= 0))
        return Candidates(ids[:count].tolist(), self.top_logprobs[row, :count].tolist())


def _result(scheduled: ScheduledSequence, entries: _Entries, rows: Iterator[int]) -> SequenceResult:
    params = scheduled.sequence.params
    result = SequenceResult()
    if scheduled.wants_prompt_logprobs:
        num_top = params.prompt_logprobs or 0
        result.prompt_logprobs = [
            entries.logprobs_of(next(rows), num_top) for _ in _scored_tokens(scheduled)
        ]
    if not scheduled.samples:
        return result
    row = next(rows)
    if entries.errors:
        result.error = entries.errors.get(scheduled.sequence.key, "")
    if params.use_beam_search:
        result.candidates = entries.top(row, num_top=entries.top_ids.shape[1])
    else:
        result.token_id = entries.token_ids[row]
        num_top = _num_logprobs(params)
        if num_top != _NO_LOGPROBS:
            result.logprobs = entries.logprobs_of(row, num_top)
        if row in entries.surprises:
            result.mirostat_mu = next_mirostat_mu(scheduled.sequence, entries.surprises[row])
    return result


def _num_logprobs(params: SamplingParams) -> int:
    """How many of the most probable tokens are wanted; those who pick want the drawn one's."""
    if params.logprobs is not None:
        return params.logprobs
    return 0 if params.picks_best else _NO_LOGPROBS


def _num_candidates(params: SamplingParams, stop_token_ids: frozenset[int]) -> int:
    """So many of one beam's best tokens are sure to hold as many that go on as there are beams."""
    stops = frozenset(params.stop_token_ids or ())
    return params.num_beams + len(stops if params.ignore_eos else stops | stop_token_ids)


def _scored_tokens(scheduled: ScheduledSequence) -> list[int]:
    """The prompt tokens that follow the computed ones: row i foretells the i-th of these."""
    sequence, first = scheduled.sequence, scheduled.start + 1
    end = min(first + scheduled.num_tokens, sequence.num_prompt_tokens)
    return sequence.token_ids[first:end]


def _has_penalties(params: SamplingParams) -> bool:
    return (
        params.repetition_penalty != 1.0
        or params.presence_penalty != 0.0
        or params.frequency_penalty != 0.0
    )
