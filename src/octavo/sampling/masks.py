"""Which tokens a sequence may go on with, as bits, and who computes them while the model runs.

Knows no grammar: whoever makes masks stands elsewhere, and is handed to the runner.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from octavo.core.schedule import ScheduledStep

MASK_BITS = 32
"""Tokens in one word of a mask."""


def num_mask_words(vocab_size: int) -> int:
    return -(-vocab_size // MASK_BITS)


@dataclass(frozen=True, slots=True)
class TokenMasks:
    """`words` uint32 [masks, num_mask_words(vocab_size)]: bit i % 32 of word i // 32 allows token
    i. `rows` says whose mask is where, by `Sequence.key`; who is not in it may draw any token."""

    words: npt.NDArray[np.uint32]
    rows: dict[tuple[str, int], int]


class PendingMasks(Protocol):
    """Masks that are being computed."""

    def wait(self) -> TokenMasks | None: ...


class MaskSource(Protocol):
    """Who computes masks beside the forward pass."""

    def begin(self, step: ScheduledStep) -> PendingMasks:
        """Start on the masks of the sequences that draw a token in `step`; returns at once."""
