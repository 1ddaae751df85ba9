"""`allowed_token_ids` of sequences as token masks, joined with whoever else's masks there are."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from octavo.core.schedule import ScheduledStep
from octavo.core.sequence import Sequence
from octavo.sampling.masks import MASK_BITS, TokenMasks, num_mask_words

Words = npt.NDArray[np.uint32]


class AllowedTokens:
    """Masks of the sequences of the latest step, each made once."""

    def __init__(self, vocab_size: int) -> None:
        self._num_words = num_mask_words(vocab_size)
        self._known: dict[tuple[str, int], Words] = {}

    def joined(self, masks: TokenMasks | None, step: ScheduledStep) -> TokenMasks | None:
        """`masks`, and those of the sequences that draw in `step`; both hold where there are two.
        Changes nothing of `masks`."""
        known: dict[tuple[str, int], Words] = {}
        for scheduled in step.sequences:
            sequence = scheduled.sequence
            if scheduled.samples and sequence.params.allowed_token_ids is not None:
                known[sequence.key] = self._words_of(sequence)
        self._known = known
        if not known:
            return masks
        rows = {} if masks is None else dict(masks.rows)
        words = [] if masks is None else list(masks.words)
        for key, allowed in known.items():
            both = allowed if key not in rows else allowed & words[rows[key]]
            rows[key] = len(words)
            words.append(both)
        return TokenMasks(np.array(words, np.uint32), rows)

    def _words_of(self, sequence: Sequence) -> Words:
        known = self._known.get(sequence.key)
        if known is not None:
            return known
        bits = np.zeros(self._num_words * MASK_BITS, np.uint8)
        bits[sequence.params.allowed_token_ids] = 1
        return np.packbits(bits, bitorder="little").view(np.uint32)
