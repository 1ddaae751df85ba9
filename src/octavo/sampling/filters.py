"""What sequences ask of the sampler beyond penalties, top_k, top_p and min_p, as flat native rows.

Knows sequences and their parameters; the arithmetic is in `kernels/native/runtime/token_filters.h`
and `dry_penalty.h`.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from octavo.core.sequence import Sequence
from octavo.kernels import _native as native

_ROW = struct.Struct(native.FILTER_ROW_FORMAT)
_BREAKER_END = -1
_NO_IDS = np.empty(0, np.int32)


@dataclass(slots=True)
class FilterBatch:
    """The filters of one native call, under construction. Ranges index `ids`."""

    rows: list[bytes] = field(default_factory=list)
    ids: list[native.I32] = field(default_factory=list)
    num_ids: int = 0
    surprise_of: dict[int, int] = field(default_factory=dict)
    """By row of the call, where its surprise will stand."""

    def add_ids(self, ids: native.I32) -> tuple[int, int]:
        begin = self.num_ids
        self.ids.append(ids)
        self.num_ids += len(ids)
        return begin, self.num_ids

    def native(self) -> native.Filters | None:
        if not self.rows:
            return None
        return native.Filters(b"".join(self.rows), np.concatenate([_NO_IDS, *self.ids]))


class FilterRows:
    """Adds the rows of a step's sequences, one step after the other."""

    def __init__(self) -> None:
        self._breakers: dict[tuple[str, int], native.I32] = {}
        self._next: dict[tuple[str, int], native.I32] = {}

    def start_step(self) -> FilterBatch:
        """What the last step did not use is forgotten."""
        self._breakers, self._next = self._next, {}
        return FilterBatch()

    def add(
        self, batch: FilterBatch, sequence: Sequence, row: int, history: tuple[int, int, int]
    ) -> None:
        """`row` is its number in the native call, `history` its prompt's and answer's range. Rows
        come in rising order. Sequences that ask for nothing get no row."""
        params = sequence.params
        draws = params.has_draw_filters and not params.is_greedy
        if not (draws or params.has_dry):
            return
        breakers = self._next[sequence.key] = self._breakers_of(sequence)
        begin, _, end = history
        last_n = params.dry_penalty_last_n
        if params.mirostat and draws:
            batch.surprise_of[row] = len(batch.rows)
        batch.rows.append(
            _ROW.pack(
                *(_draw_fields(sequence) if draws else _NEUTRAL),
                params.dry_multiplier if params.has_dry else 0.0,
                params.dry_base,
                params.dry_allowed_length,
                row,
                begin if last_n < 0 else max(begin, end - last_n),
                *batch.add_ids(breakers),
            )
        )

    def _breakers_of(self, sequence: Sequence) -> native.I32:
        """As an array made once."""
        known = self._breakers.get(sequence.key)
        if known is not None:
            return known
        breakers = sequence.request.dry_breaker_ids
        marked = chain.from_iterable((*breaker, _BREAKER_END) for breaker in breakers)
        return np.array(list(marked), np.int32)


_NEUTRAL = (-1.0, 0.0, 1.0, 1.0, 0.0, 0.0, math.inf)


def _draw_fields(sequence: Sequence) -> tuple[float, ...]:
    params = sequence.params
    return (
        params.top_n_sigma,
        params.dynatemp_range,
        params.dynatemp_exponent,
        params.typical_p,
        params.xtc_probability,
        params.xtc_threshold,
        _mirostat_mu(sequence) if params.mirostat else math.inf,
    )


def _mirostat_mu(sequence: Sequence) -> float:
    """Basu et al. start at twice the target."""
    if sequence.mirostat_mu is None:
        return 2.0 * sequence.params.mirostat_tau
    return sequence.mirostat_mu


def next_mirostat_mu(sequence: Sequence, surprise: float) -> float:
    """What mirostat comes to when the drawn token surprises by so many bits."""
    params = sequence.params
    return _mirostat_mu(sequence) - params.mirostat_eta * (surprise - params.mirostat_tau)


def bad_word_ends(sequence: Sequence) -> Iterator[int]:
    """The tokens that would complete a bad word now: the answer ends with the rest of it."""
    num_output = sequence.num_output_tokens
    for ids in sequence.request.bad_word_ids:
        num_before = len(ids) - 1
        if num_before > num_output:
            continue
        if num_before == 0 or sequence.token_ids[-num_before:] == ids[:-1]:
            yield ids[-1]
