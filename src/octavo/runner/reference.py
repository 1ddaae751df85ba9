"""An executable that computes with plain torch: slow, the oracle of tests, never of a server."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from octavo.models.model import Model
from octavo.ops.torch_reference import ReferencePages, ReferenceStep, TorchOps
from octavo.runner.executable import Logits
from octavo.runner.step import Step


class ReferenceExecutable:
    """`weights` by name, float32, rows in the order that the model computes with. All layers stand
    in one group."""

    def __init__(
        self,
        model: Model,
        weights: Mapping[str, npt.NDArray[np.float32]],
        num_pages: int,
        step: Step,
    ) -> None:
        self._model = model
        self._weights = weights
        self._pages = ReferencePages(model.config, num_pages)
        self._step = step

    def run(self) -> Logits:
        step = self._step
        tokens, sequences = step.num_tokens, step.num_sequences
        ops = TorchOps(
            self._weights,
            self._pages,
            ReferenceStep(
                token_ids=step.token_ids[:tokens],
                positions=step.positions[:tokens],
                slots=step.slots[:tokens, 0],
                query_starts=step.query_starts[: sequences + 1],
                page_tables=step.page_tables[:sequences],
                logit_rows=step.logit_rows[: step.num_logit_rows],
            ),
        )
        logits: Logits = self._model.forward(ops).data.numpy()
        return logits
