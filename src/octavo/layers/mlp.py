"""The gated feed-forward block of a decoder layer, written on ops (Shazeer 2020)."""

from __future__ import annotations

from dataclasses import dataclass

from octavo.ops.interface import Activation, Ops, V
from octavo.weights.weight import Weight


@dataclass(frozen=True, slots=True, kw_only=True)
class MlpWeights:
    """Shapes: gate and up [I, K], down [K, I]."""

    gate: Weight
    up: Weight
    down: Weight

    def all(self) -> list[Weight]:
        return [self.gate, self.up, self.down]


def gated_mlp(ops: Ops[V], x: V, weights: MlpWeights, activation: Activation) -> V:
    """[R, K] normalised activations -> [R, K], to be added to the residual stream."""
    gate = ops.linear(x, (weights.gate,))
    up = ops.linear(x, (weights.up,))
    return ops.linear(ops.gated_activation(gate, up, activation), (weights.down,))
