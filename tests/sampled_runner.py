"""A fake runner with a real sampler: its logits are a hash of all that a sequence has read."""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from octavo.core.schedule import ScheduledSequence, ScheduledStep, StepResult
from octavo.kernels import _native as native
from octavo.sampling.sampler import Sampler
from tests.fakes import EOS, ByteTokenizer
from tests.masked_runner import MaskedRunner

VOCAB = ByteTokenizer.vocab_size
LETTERS = list(b"abcde \n")


class SampledRunner(MaskedRunner):
    """What `choose` says is likely, a few letters are likelier than other bytes, and every
    parameter of sampling acts as it does on a model."""

    _sampler: Sampler | None = None

    def run(self, step: ScheduledStep) -> StepResult:
        pending = self.grammars.begin(step)
        self.steps.append(step)
        self._memory.do(step.moves)
        self._write(step)
        rows = [row for scheduled in step.sequences for row in self._rows(scheduled)]
        logits = np.array(rows, np.float32).reshape(len(rows), VOCAB)
        if self._sampler is None:
            self._sampler = Sampler(VOCAB, native.ThreadPool(1))
        results = self._sampler.sample(logits, step, frozenset({EOS}), pending.wait())
        return StepResult(results)

    def _rows(self, scheduled: ScheduledSequence) -> list[npt.NDArray[np.float32]]:
        """The rows of logits that the sampler expects of one sequence."""
        end = scheduled.start + scheduled.num_tokens
        context = self._memory.read(scheduled.sequence.page_table, range(end))
        if scheduled.wants_prompt_logprobs:
            return [self._logits(context[: i + 1]) for i in range(scheduled.start, end)]
        return [self._logits(context)] if scheduled.samples else []

    def _logits(self, context: list[int]) -> npt.NDArray[np.float32]:
        digest = blake2b(np.array(context, np.int32).tobytes(), digest_size=8).digest()
        rng = np.random.Generator(np.random.SFC64(int.from_bytes(digest, "little")))
        logits = rng.standard_normal(VOCAB, np.float32)
        logits[LETTERS] += 2
        logits[self._choose(context, 0)] += 12
        return logits
