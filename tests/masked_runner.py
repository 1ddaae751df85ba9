"""A fake runner that draws only what grammars allow."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from octavo.core.schedule import ScheduledStep, StepResult
from octavo.engine.grammars import LoadVocabulary, SequenceGrammars
from tests.fakes import ByteTokenizer, FakeRunner
from tests.structured.vocabularies import byte_vocabulary

VOCAB = ByteTokenizer.vocab_size


class MaskedRunner(FakeRunner):
    """Draws what the fake model says if the mask allows it, else what it hashes to among what is
    allowed. Without `obeys` it draws what it will."""

    def __init__(
        self,
        num_pages: int,
        page_tokens: int,
        choose: Callable[[list[int], int], int] | None = None,
        *,
        obeys: bool = True,
        load_vocabulary: LoadVocabulary = byte_vocabulary,
        fail_on: Iterable[int] = (),
        on_run: Callable[[ScheduledStep], None] | None = None,
    ) -> None:
        super().__init__(num_pages, page_tokens, choose, fail_on=fail_on, on_run=on_run)
        self.grammars = SequenceGrammars(VOCAB, load_vocabulary)
        self._obeys = obeys

    def run(self, step: ScheduledStep) -> StepResult:
        pending = self.grammars.begin(step)
        result = super().run(step)
        masks = pending.wait()
        if masks is None or not self._obeys:
            return result
        for scheduled, outcome in zip(step.sequences, result.results, strict=True):
            row = masks.rows.get(scheduled.sequence.key)
            if row is None or outcome.token_id is None:
                continue
            bits = np.unpackbits(masks.words[row].view(np.uint8), bitorder="little")
            if not bits[outcome.token_id]:
                allowed = np.flatnonzero(bits[:VOCAB])
                drawn = allowed[outcome.token_id % len(allowed)] if len(allowed) else 0
                outcome.token_id = int(drawn)
        return result
