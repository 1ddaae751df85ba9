"""What a model file provides: facts, weights, and a forward function written on ops."""

from __future__ import annotations

from typing import Protocol

from octavo.core.model_config import ModelConfig
from octavo.ops.interface import Ops, V
from octavo.weights.weight import Weight


class Model(Protocol):
    """Model files build one from a `GGUFFile`, reading and checking its facts but no weights."""

    @property
    def config(self) -> ModelConfig: ...

    def weights(self) -> list[Weight]:
        """Every tensor that `forward` uses, each once."""
        ...

    @property
    def norm(self) -> Weight:
        """The root mean square norm (K,) before the head; its eps is the config's."""
        ...

    def forward(self, ops: Ops[V]) -> V:
        """Logits [L, vocabulary] of the step that `ops` knows."""
        ...
