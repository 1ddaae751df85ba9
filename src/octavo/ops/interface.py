"""The seam: the closed list of operations that models are written with, and their shapes.

Every value is `[rows, width]` in float32, where rows counts the tokens of a step, its sequences, or
the rows that need logits. Nothing here knows weights' formats, memory, threads or torch.

Operations return new values. An operation said to work in place uses its argument up: the caller
must not read the columns that it was given again (recording checks this).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Literal, Protocol, Self, TypeVar

from octavo.core.model_config import RopeConfig
from octavo.weights.weight import Weight

Activation = Literal["silu", "gelu_tanh"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionSpec:
    """Grouped-query attention of one layer.

    Scores are `scale * q·k`, then `softcap * tanh(score / softcap)` unless softcap is 0. The token
    at position p sees keys 0..p, and only those j with `p - j < window` unless window is 0.
    """

    num_heads: int
    num_kv_heads: int
    head_dim: int
    scale: float
    window: int = 0
    softcap: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyOffset:
    """What every key of a head is less before it is kept: `vector` (kv_heads * head_dim,) but for
    the first `num_turning` columns of both halves that rope rotates.

    A query's scores all become less by one number, which softmax does not see, unless they are
    capped. Smaller keys are rounded less.
    """

    vector: Weight
    rotary_dim: int
    num_turning: int


class Value(Protocol):
    """An activation. Models may ask for its width and for some of its columns, nothing else."""

    @property
    def width(self) -> int: ...

    def columns(self, start: int, stop: int) -> Self:
        """Columns [start, stop) of the same rows; a view."""
        ...


V = TypeVar("V", bound=Value)


class Ops(Protocol[V]):
    """The operations. T, L: rows of kind tokens, logits; R: any kind."""

    def scope(self, name: str) -> AbstractContextManager[None]:
        """Names the part of the model that the calls inside belong to, for people."""
        ...

    def embed(self, table: Weight, *, scale: float = 1.0) -> V:
        """Rows of `table` [V, K] for the step's token ids, times `scale`: [T, K]."""
        ...

    def rope_angles(self, rope: RopeConfig) -> V:
        """Cosines and then sines of the step's positions: [T, rotary_dim]."""
        ...

    def linear(
        self, x: V, weights: Sequence[Weight], biases: Sequence[Weight | None] | None = None
    ) -> V:
        """`x · Wᵀ + b` of each weight [N_i, K], side by side: [R, K] -> [R, sum N_i]."""
        ...

    def gated_activation(self, gate: V, up: V, activation: Activation) -> V:
        """`activation(gate) * up`: [R, N], [R, N] -> [R, N]."""
        ...

    def rms_norm(self, x: V, weight: Weight, eps: float) -> V:
        """`x / sqrt(mean(x²) + eps) * weight` (Zhang and Sennrich 2019): [R, K] -> [R, K]."""
        ...

    def head_rms_norm(self, x: V, weight: Weight, eps: float) -> V:
        """`rms_norm` of each head: [R, heads * dim] with weight (dim,). In place."""
        ...

    def rope(self, x: V, angles: V, head_dim: int) -> V:
        """Rotate the halves of the first rotary_dim columns of each head (Su et al. 2021).

        [T, heads * head_dim], angles [T, rotary_dim]. In place.
        """
        ...

    def write_pages(self, keys: V, values: V, layer: int, offset: KeyOffset | None = None) -> None:
        """Keep keys and values [T, kv_heads * head_dim] in a layer's pages, at the step's slots.

        All keys of a layer have the same offset.
        """
        ...

    def attention(self, queries: V, layer: int, spec: AttentionSpec) -> V:
        """Causal attention of each token over the layer's pages of its sequence.

        [T, heads * head_dim] -> [T, heads * head_dim]. The step's own keys and values must have
        been written.
        """
        ...

    def add(self, a: V, b: V) -> V:
        """`a + b`: [R, K], [R, K] -> [R, K]."""
        ...

    def softcap(self, x: V, cap: float) -> V:
        """`cap * tanh(x / cap)`: [R, K] -> [R, K]. In place."""
        ...

    def gather_rows(self, x: V) -> V:
        """The rows whose logits the step needs: [T, K] -> [L, K]."""
        ...
