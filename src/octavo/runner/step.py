"""`Step`: everything that changes between steps, in buffers that stay where they are.

What changes between steps lives here; the rest is baked into the executable. Filling is cheap:
decodes go through plain lists, prompt chunks through array arithmetic, and page tables are written
only where they changed. Knows no model and no kernel.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from octavo.core.schedule import ScheduledSequence, ScheduledStep
from octavo.core.sequence import PAGE_TOKENS


@dataclass(frozen=True, slots=True, kw_only=True)
class StepLimits:
    """The largest step. `max_context_tokens` is per sequence. `num_page_groups`: entries of a page
    table for each stripe (`core.page_groups`)."""

    max_tokens: int
    max_sequences: int
    max_logit_rows: int
    max_context_tokens: int
    num_page_groups: int = 1

    @property
    def max_pages(self) -> int:
        """Entries of a page table."""
        return -(-self.max_context_tokens // PAGE_TOKENS) * self.num_page_groups


class Step:
    """Row t of the token buffers is token t of the step; see native include/octavo/step_view.h.

    Logit rows: for each sequence in order all its rows if it wants prompt logprobs, else its last
    row if it samples, else none.
    """

    def __init__(self, limits: StepLimits) -> None:
        tokens, sequences = limits.max_tokens, limits.max_sequences
        self.limits = limits
        self.num_tokens = 0
        self.num_sequences = 0
        self.num_logit_rows = 0
        self.token_ids = np.zeros(tokens, np.int32)
        self.positions = np.zeros(tokens, np.int32)
        self.token_sequences = np.zeros(tokens, np.int32)
        self.slots = np.zeros((tokens, limits.num_page_groups), np.int64)
        self.query_starts = np.zeros(sequences + 1, np.int32)
        self.context_lengths = np.zeros(sequences, np.int32)
        self.page_tables = np.zeros((sequences, limits.max_pages), np.int32)
        self.logit_rows = np.zeros(limits.max_logit_rows, np.int32)
        self._written_tables: list[list[int]] = [[] for _ in range(sequences)]

    def fill(self, scheduled: ScheduledStep) -> None:
        """Raises `ValueError` if the step is larger than the limits."""
        self._check(scheduled)
        for index, one in enumerate(scheduled.sequences):
            self._write_page_table(index, one.sequence.page_table)
        decodes = 0
        for one in scheduled.sequences:
            if one.num_tokens != 1:
                break
            decodes += 1
        self._fill_decodes(scheduled.sequences[:decodes])
        row = decodes
        for index, one in enumerate(scheduled.sequences[decodes:], decodes):
            self._fill_chunk(index, one, row)
            row += one.num_tokens
        self._fill_sequences(scheduled.sequences)

    def _check(self, scheduled: ScheduledStep) -> None:
        limits = self.limits
        if scheduled.num_tokens > limits.max_tokens:
            raise ValueError(f"{scheduled.num_tokens} tokens; at most {limits.max_tokens} fit")
        if len(scheduled.sequences) > limits.max_sequences:
            raise ValueError(
                f"{len(scheduled.sequences)} sequences; at most {limits.max_sequences} fit"
            )

    def _fill_decodes(self, decodes: list[ScheduledSequence]) -> None:
        """Rows of the leading sequences that compute one token each."""
        token_ids, positions, slots = [], [], []
        num_groups = self.limits.num_page_groups
        for one in decodes:
            sequence, position = one.sequence, one.start
            token_ids.append(sequence.token_ids[position])
            positions.append(position)
            first = position // PAGE_TOKENS * num_groups
            for page in sequence.page_table[first : first + num_groups]:
                slots.append(page * PAGE_TOKENS + position % PAGE_TOKENS)
        count = len(decodes)
        assert min(slots, default=0) >= 0, "a token is computed without a page"
        self.token_ids[:count] = token_ids
        self.positions[:count] = positions
        self.slots.reshape(-1)[: len(slots)] = slots
        self.token_sequences[:count] = range(count)

    def _fill_chunk(self, index: int, one: ScheduledSequence, row: int) -> None:
        rows = slice(row, row + one.num_tokens)
        stop = one.start + one.num_tokens
        self.token_ids[rows] = one.sequence.token_ids[one.start : stop]
        positions = np.arange(one.start, stop, dtype=np.int32)
        self.positions[rows] = positions
        self.token_sequences[rows] = index
        tables = self.page_tables[index].reshape(-1, self.limits.num_page_groups)
        pages = tables[positions // PAGE_TOKENS].astype(np.int64)
        assert pages.min() >= 0, "a token is computed without a page"
        self.slots[rows] = pages * PAGE_TOKENS + (positions % PAGE_TOKENS)[:, None]

    def _fill_sequences(self, sequences: list[ScheduledSequence]) -> None:
        starts, lengths = [0], []
        logit_rows: list[int] = []
        row = 0
        for one in sequences:
            row += one.num_tokens
            starts.append(row)
            lengths.append(one.start + one.num_tokens)
            if one.wants_prompt_logprobs:
                logit_rows.extend(range(row - one.num_tokens, row))
            elif one.samples:
                logit_rows.append(row - 1)
        if len(logit_rows) > self.limits.max_logit_rows:
            raise ValueError(
                f"{len(logit_rows)} logit rows; at most {self.limits.max_logit_rows} fit"
            )
        self.query_starts[: len(starts)] = starts
        self.context_lengths[: len(lengths)] = lengths
        self.logit_rows[: len(logit_rows)] = logit_rows
        self.num_tokens = row
        self.num_sequences = len(sequences)
        self.num_logit_rows = len(logit_rows)

    def _write_page_table(self, index: int, table: list[int]) -> None:
        """Comparing lists of small integers is far cheaper than converting them to an array."""
        written = self._written_tables[index]
        if written == table:
            return
        kept = len(written) if table[: len(written)] == written else 0
        self.page_tables[index, kept : len(table)] = table[kept:]
        self._written_tables[index] = table.copy()
