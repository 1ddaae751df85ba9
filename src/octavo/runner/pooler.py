"""Hidden states to vectors: the last norm, pooling over a prompt's chunks, cut and length.

All in float64, one token after the other in the order of their positions: how a prompt was cut into
chunks and who else is in a step changes no bit. Knows no request but its `Pooling`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from octavo.core.pooling import Pooling
from octavo.core.schedule import ScheduledSequence, ScheduledStep, SequenceResult

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]

BLOCK_ROWS = 64
"""Rows that are normalised together: they stay in the cache."""


class HiddenPooler:
    """`norm` (K,) and `eps` are those of the model's last norm."""

    def __init__(self, norm: F32, eps: float) -> None:
        self._norm = norm.astype(np.float64)
        self._eps = eps

    def pool(
        self, read_hidden: Callable[[], F32], step: ScheduledStep, results: list[SequenceResult]
    ) -> None:
        """Fill in the results of the sequences that become vectors. `read_hidden` gives the rows
        [tokens, K] of the step, and is asked only if there are any."""
        hidden: F32 | None = None
        row = 0
        for scheduled, result in zip(step.sequences, results, strict=True):
            last_row = row + scheduled.num_tokens
            pooling = scheduled.sequence.request.pooling
            if pooling is not None:
                hidden = read_hidden() if hidden is None else hidden
                self._advance(hidden[row:last_row], scheduled, pooling, result)
            row = last_row

    def _advance(
        self, rows: F32, scheduled: ScheduledSequence, pooling: Pooling, result: SequenceResult
    ) -> None:
        """Take the rows of one chunk."""
        sequence = scheduled.sequence
        is_complete = scheduled.start + scheduled.num_tokens == sequence.num_tokens
        state = sequence.pooled if scheduled.start else None
        match pooling.method:
            case "mean":
                state = self._sum(rows, np.zeros(rows.shape[1]) if state is None else state.copy())
            case "cls":
                state = self._normed(rows[:1])[0] if state is None else state
            case "last":
                state = self._normed(rows[-1:])[0] if is_complete else None
        result.pooled = state
        if is_complete:
            assert state is not None, "a complete prompt has a last row"
            total = state / sequence.num_tokens if pooling.method == "mean" else state
            result.embedding = _finished(total, pooling)

    def _sum(self, rows: F32, total: F64) -> F64:
        for start in range(0, len(rows), BLOCK_ROWS):
            for row in self._normed(rows[start : start + BLOCK_ROWS]):
                total += row
        return total

    def _normed(self, rows: F32) -> F64:
        """`rms_norm` of each row (Zhang and Sennrich 2019)."""
        wide = rows.astype(np.float64)
        squares = np.add.reduce(wide * wide, axis=1, keepdims=True) / wide.shape[1]
        normed: F64 = wide / np.sqrt(squares + self._eps) * self._norm
        return normed


def _finished(vector: F64, pooling: Pooling) -> bytes:
    """Float32, little-endian. A vector of zeros has no direction and stays as it is."""
    vector = vector[: pooling.dimensions]
    if pooling.normalize:
        length = np.sqrt(np.add.reduce(vector * vector))
        vector = vector / (length or 1.0)
    return vector.astype("<f4").tobytes()
