"""A sampler in plain numpy, one row at a time: what correct means for the native one.

A token weighs exp(logit - largest), computed in float32 by `exponential` and rounded to a multiple
of 2^-40. Sums of weights are whole numbers of these steps, hence exact: no result depends on the
order of a sum, and the native sampler must return the same tokens, ties at the edge of top_p
included.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

F32 = npt.NDArray[np.float32]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]
Ids = npt.NDArray[np.intp]

MASK_32 = 2**32 - 1
MASS_BITS = 40
LOG_MIN_WEIGHT = -29.0
"""Whatever lies so far below the largest logit weighs less than half a step."""


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """What one row asks for. `history` is the prompt and then the answer."""

    seed: int = 0
    position: int = 0
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    prompt: list[int] = field(default_factory=list)
    answer: list[int] = field(default_factory=list)
    edits: dict[int, float] = field(default_factory=dict)
    allowed: frozenset[int] | None = None


def philox4x32_10(counter: tuple[int, int, int, int], key: tuple[int, int]) -> tuple[int, ...]:
    """Salmon, Moraes, Dror, Shaw 2011, with Python's integers."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        high0, low0 = divmod(0xD2511F53 * c0, 2**32)
        high1, low1 = divmod(0xCD9E8D57 * c2, 2**32)
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = (k0 + 0x9E3779B9) & MASK_32, (k1 + 0xBB67AE85) & MASK_32
    return c0, c1, c2, c3


def uniform(seed: int, position: int, purpose: int = 0) -> float:
    words = philox4x32_10(
        (position & MASK_32, position >> 32, purpose, 0), (seed & MASK_32, (seed >> 32) & MASK_32)
    )
    return float((words[0] << 21) ^ (words[1] >> 11)) * 2.0**-53


def adjusted(logits: F32, wishes: Wishes) -> F32:
    """Mask, bias, then the penalties, in float32."""
    out = logits.copy()
    if wishes.allowed is not None:
        out[[token for token in range(len(out)) if token not in wishes.allowed]] = -np.inf
    for token, bias in wishes.edits.items():
        out[token] += np.float32(bias)
    if wishes.repetition_penalty != 1.0:
        penalty = np.float32(wishes.repetition_penalty)
        for token in set(wishes.prompt + wishes.answer):
            out[token] = out[token] / penalty if out[token] > 0 else out[token] * penalty
    for token in set(wishes.answer):
        count = np.float32(wishes.answer.count(token))
        out[token] -= np.float32(wishes.frequency_penalty) * count
        out[token] -= np.float32(wishes.presence_penalty)
    return out


def falling_order(logits: F32) -> Ids:
    """Token ids by falling logit, ties by rising id; NaN stands where -inf does."""
    usable = np.where(np.isnan(logits), np.float32(-np.inf), logits)
    return np.lexsort((np.arange(len(usable)), -usable))


def exponential(x: F32) -> F32:
    """e^x for -80 <= x <= 0 in float32, relative error below 3e-7: Cody and Waite's reduction, then
    the polynomial of Cephes's expf, each step rounded."""
    n = np.rint(x * np.float32(1.44269504088896341))
    r = (x - n * np.float32(0.693359375)) + n * np.float32(2.12194440e-4)
    p = np.full_like(r, 1.9875691500e-4)
    for coefficient in (1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 0.5):
        p = p * r + np.float32(coefficient)
    return np.asarray(np.ldexp(p * (r * r) + (r + np.float32(1)), n.astype(np.int32)), np.float32)


def weights(differences: F32) -> I64:
    """Of logits minus the largest; in steps of 2^-40, half a step to the even one. NaN weighs
    nothing."""
    counts = differences >= np.float32(LOG_MIN_WEIGHT)
    values = exponential(np.where(counts, differences, np.float32(0))).astype(np.float64)
    steps: I64 = np.rint(np.ldexp(values, MASS_BITS)).astype(np.int64)
    return np.where(counts, steps, np.int64(0))


def share_of(whole: int, share: float) -> int:
    """The least mass that is at least `share` of `whole`."""
    return min(whole, math.ceil(share * float(whole)))


def prefix_of_mass(order: Ids, order_weights: I64, mass: int) -> Ids:
    """The fewest first ones of `order` that weigh `mass` together."""
    before = np.cumsum(order_weights) - order_weights
    kept: Ids = order[before < mass]
    return kept


def drawn(id_weights: I64, uniform: float) -> int:
    """Where, by rising id, the cumulative weight first exceeds `uniform` of the whole."""
    cumulative = np.cumsum(id_weights)
    whole = int(cumulative[-1])
    target = min(whole - 1, math.floor(uniform * float(whole)))
    return int(np.searchsorted(cumulative, target, side="right"))


def kept_tokens(scaled: F32, wishes: Wishes) -> Ids:
    """What min_p, top_k and top_p leave, as ids in falling order."""
    with np.errstate(divide="ignore", over="ignore"):
        differences: F32 = scaled - scaled.max()
        least = np.float32(max(float(np.log(np.float64(wishes.min_p))), LOG_MIN_WEIGHT))
    order = falling_order(scaled)
    order = order[differences[order] >= least]
    if wishes.top_k >= 1:
        order = order[: wishes.top_k]
    if wishes.top_p < 1:
        masses = weights(differences[order])
        order = prefix_of_mass(order, masses, share_of(int(masses.sum()), wishes.top_p))
    return order


def choose(logits: F32, wishes: Wishes) -> int:
    row = adjusted(logits, wishes)
    if wishes.temperature == 0:
        return int(falling_order(row)[0])
    with np.errstate(over="ignore"):
        scaled = row * (np.float32(1) / np.float32(wishes.temperature))
    scaled = np.where(np.isnan(scaled), np.float32(-np.inf), scaled)
    if not np.isfinite(scaled.max()):
        return int(np.argmax(scaled))
    kept = np.sort(kept_tokens(scaled, wishes))
    masses = weights(scaled[kept] - scaled.max())
    return int(kept[drawn(masses, uniform(wishes.seed, wishes.position))])


def log_softmax(logits: F32) -> F64:
    row = np.where(np.isnan(logits), -np.inf, logits.astype(np.float64))
    top = row.max()
    if not np.isfinite(top):
        return np.asarray(np.where(row == np.inf, 0.0, -np.inf))
    return np.asarray(row - top - np.log(np.exp(row - top).sum()))


def rank(logits: F32, token: int) -> int:
    return int(np.flatnonzero(falling_order(logits) == token)[0]) + 1


def candidate_scores(logits: F32, wishes: Wishes) -> F32:
    """Log softmax first, then bias and penalties."""
    with np.errstate(invalid="ignore"):
        return adjusted(log_softmax(logits).astype(np.float32), wishes)
