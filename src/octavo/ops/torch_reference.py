"""The definition of correct: every operation in plain torch, float32, slow and obvious.

Computes at once, for the step it is given. Keys and values lie in one row per slot, so that page
tables mean here what they mean to the native kernels. The only file of octavo that imports torch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from octavo.core.model_config import ModelConfig, RopeConfig
from octavo.core.sequence import PAGE_TOKENS
from octavo.ops.interface import Activation, AttentionSpec, KeyOffset
from octavo.ops.rope import inverse_frequencies
from octavo.weights.weight import Weight


@dataclass(frozen=True, slots=True)
class Rows:
    """A value: a float32 tensor [rows, width]."""

    data: torch.Tensor

    @property
    def width(self) -> int:
        return int(self.data.shape[1])

    def columns(self, start: int, stop: int) -> Rows:
        return Rows(self.data[:, start:stop])


@dataclass(frozen=True, slots=True)
class ReferenceStep:
    """One step, in the terms of `runner.step.Step`, cut to the rows in use.

    `query_starts` [S + 1] and `page_tables` [S, pages] describe the S sequences.
    """

    token_ids: npt.NDArray[np.int32]
    positions: npt.NDArray[np.int32]
    slots: npt.NDArray[np.int64]
    query_starts: npt.NDArray[np.int32]
    page_tables: npt.NDArray[np.int32]
    logit_rows: npt.NDArray[np.int32]


class ReferencePages:
    """Keys and values of every layer: [slots, kv_heads, head_dim] each."""

    def __init__(self, config: ModelConfig, num_pages: int) -> None:
        slots = num_pages * PAGE_TOKENS
        shapes = [(slots, layer.num_kv_heads, layer.head_dim) for layer in config.layers]
        self.keys = [torch.zeros(shape) for shape in shapes]
        self.values = [torch.zeros(shape) for shape in shapes]


class TorchOps:
    """`Ops` of `Rows`. `weights` maps names to float32 arrays in the order the model computes with
    (`Weight.row_order` already applied)."""

    def __init__(
        self,
        weights: Mapping[str, npt.NDArray[np.float32]],
        pages: ReferencePages,
        step: ReferenceStep,
    ) -> None:
        self._weights = weights
        self._pages = pages
        self._step = step

    @contextmanager
    def scope(self, name: str) -> Iterator[None]:  # noqa: ARG002 (names are for programs)
        yield

    def embed(self, table: Weight, *, scale: float = 1.0) -> Rows:
        return Rows(self._weight(table)[torch.from_numpy(self._step.token_ids)] * scale)

    def rope_angles(self, rope: RopeConfig) -> Rows:
        positions = torch.from_numpy(self._step.positions.astype(np.float32))
        angles = positions[:, None] * torch.from_numpy(inverse_frequencies(rope))
        return Rows(torch.cat((angles.cos(), angles.sin()), dim=1))

    def linear(
        self, x: Rows, weights: Sequence[Weight], biases: Sequence[Weight | None] | None = None
    ) -> Rows:
        parts = []
        for weight, bias in zip(weights, biases or [None] * len(weights), strict=True):
            y = x.data @ self._weight(weight).T
            parts.append(y if bias is None else y + self._weight(bias))
        return Rows(torch.cat(parts, dim=1))

    def gated_activation(self, gate: Rows, up: Rows, activation: Activation) -> Rows:
        if activation == "silu":
            return Rows(torch.nn.functional.silu(gate.data) * up.data)
        return Rows(torch.nn.functional.gelu(gate.data, approximate="tanh") * up.data)

    def rms_norm(self, x: Rows, weight: Weight, eps: float) -> Rows:
        return Rows(_rms_norm(x.data, self._weight(weight), eps))

    def head_rms_norm(self, x: Rows, weight: Weight, eps: float) -> Rows:
        heads = x.data.unflatten(1, (-1, weight.shape[0]))
        return Rows(_rms_norm(heads, self._weight(weight), eps).flatten(1))

    def rope(self, x: Rows, angles: Rows, head_dim: int) -> Rows:
        half = angles.width // 2
        cosines, sines = angles.data[:, None, :half], angles.data[:, None, half:]
        heads = x.data.unflatten(1, (-1, head_dim))
        x1, x2, rest = heads.tensor_split((half, 2 * half), dim=2)
        rotated = (x1 * cosines - x2 * sines, x2 * cosines + x1 * sines, rest)
        return Rows(torch.cat(rotated, dim=2).flatten(1))

    def write_pages(
        self,
        keys: Rows,
        values: Rows,
        layer: int,
        offset: KeyOffset | None = None,  # noqa: ARG002  (changes no result of attention)
    ) -> None:
        slots = torch.from_numpy(self._step.slots)
        for kept, new in ((self._pages.keys, keys), (self._pages.values, values)):
            kept[layer][slots] = new.data.view(-1, *kept[layer].shape[1:])

    def attention(self, queries: Rows, layer: int, spec: AttentionSpec) -> Rows:
        """One token at a time, over all the keys that it may see."""
        step = self._step
        out = torch.empty_like(queries.data)
        for sequence, (first, last) in enumerate(
            zip(step.query_starts[:-1], step.query_starts[1:], strict=True)
        ):
            slots = _slots_of(step.page_tables[sequence])
            for row in range(int(first), int(last)):
                position = int(step.positions[row])
                seen = slots[_first_seen(position, spec) : position + 1]
                q = queries.data[row].view(spec.num_heads, spec.head_dim)
                k, v = self._pages.keys[layer][seen], self._pages.values[layer][seen]
                out[row] = _attend(q, k, v, spec).flatten()
        return Rows(out)

    def add(self, a: Rows, b: Rows) -> Rows:
        return Rows(a.data + b.data)

    def softcap(self, x: Rows, cap: float) -> Rows:
        return Rows(cap * torch.tanh(x.data / cap))

    def gather_rows(self, x: Rows) -> Rows:
        return Rows(x.data[torch.from_numpy(self._step.logit_rows)])

    def _weight(self, weight: Weight) -> torch.Tensor:
        return torch.from_numpy(self._weights[weight.name])


def _rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    return x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + eps) * weight


def _slots_of(page_table: npt.NDArray[np.int32]) -> torch.Tensor:
    """The slot of each position, [pages * PAGE_TOKENS]."""
    slots = page_table.astype(np.int64)[:, None] * PAGE_TOKENS + np.arange(PAGE_TOKENS)
    return torch.from_numpy(slots.reshape(-1))


def _first_seen(position: int, spec: AttentionSpec) -> int:
    first: int = position - spec.window + 1
    return max(0, first) if spec.window else 0


def _attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, spec: AttentionSpec) -> torch.Tensor:
    """q [H, D], k and v [seen, Hk, D] -> [H, D]."""
    group = spec.num_heads // spec.num_kv_heads
    k = k.repeat_interleave(group, dim=1)
    v = v.repeat_interleave(group, dim=1)
    scores = torch.einsum("hd,shd->hs", q, k) * spec.scale
    if spec.softcap:
        scores = spec.softcap * torch.tanh(scores / spec.softcap)
    return torch.einsum("hs,shd->hd", torch.softmax(scores, dim=1), v)
