"""The filters beyond temperature, min_p, top_k and top_p in plain numpy, and DRY by its definition:
what correct means for the native ones."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from tests.sampling import reference
from tests.sampling.reference import F32, F64, I64, Ids, Wishes, prefix_of_mass, share_of

MAX_F32 = float(np.finfo(np.float32).max)


@dataclass(frozen=True, kw_only=True)
class Filters:
    """What one row asks for besides its `Wishes`."""

    top_n_sigma: float = -1.0
    dynatemp_range: float = 0.0
    dynatemp_exponent: float = 1.0
    typical_p: float = 1.0
    xtc_probability: float = 0.0
    xtc_threshold: float = 0.1
    mirostat_mu: float = np.inf
    dry_multiplier: float = 0.0
    dry_base: float = 1.75
    dry_allowed_length: int = 2
    dry_last_n: int = -1
    dry_breakers: list[list[int]] = field(default_factory=list)

    @property
    def draw(self) -> bool:
        """Whether drawing needs more than what the other sampler does."""
        return (
            self.top_n_sigma > 0
            or self.dynatemp_range > 0
            or self.typical_p < 1
            or self.xtc_probability > 0
            or self.mirostat_mu < np.inf
        )


def total(values: F64) -> float:
    """Summed one by one, as numpy's own sum does not."""
    return float(np.cumsum(values)[-1])


def probabilities(masses: I64) -> F64:
    return np.asarray(masses / float(masses.sum()))


def within_sigma(row: F32, ids: Ids, n: float) -> Ids:
    values = row[ids].astype(np.float64)
    mean = total(values) / len(ids)
    deviation = np.sqrt(total((values - mean) ** 2) / len(ids))
    kept: Ids = ids[values >= float(row[ids].max()) - n * deviation]
    return kept


def temperature_of(row: F32, ids: Ids, temperature: float, filters: Filters) -> np.float32:
    if filters.dynatemp_range == 0 or len(ids) < 2:
        return np.float32(temperature)
    temperature = float(np.float32(temperature))
    differences = (row[ids] - row[ids].max()).astype(np.float64)
    p = np.exp(differences)
    p /= total(p)
    entropy = -total(np.where(p > 0, p * np.log(np.where(p > 0, p, 1.0)), 0.0))
    evenness = min(max(entropy / np.log(len(ids)), 0.0), 1.0)
    low = max(0.0, temperature - filters.dynatemp_range)
    high = temperature + filters.dynatemp_range
    return np.float32(low + (high - low) * evenness**filters.dynatemp_exponent)


def typical(differences: F32, ids: Ids, share: float) -> Ids:
    values = differences[ids].astype(np.float64)
    masses = reference.weights(differences[ids])
    whole = int(masses.sum())
    surprises = np.log(np.ldexp(float(whole), -reference.MASS_BITS)) - values
    distances = np.abs(surprises - total(probabilities(masses) * surprises))
    order = np.lexsort((ids, -values, distances))
    return np.sort(prefix_of_mass(ids[order], masses[order], share_of(whole, share)))


def without_top_choices(differences: F32, ids: Ids, threshold: float) -> Ids:
    top = ids[probabilities(reference.weights(differences[ids])) >= threshold]
    falling = top[np.lexsort((top, -differences[top]))]
    return np.setdiff1d(ids, falling[:-1])


@np.errstate(all="ignore")
def kept_tokens(row: F32, wishes: Wishes, filters: Filters) -> tuple[Ids, F32] | None:
    """Ids by rising id and all logits, scaled, minus the largest; None to take the largest."""
    ids = np.flatnonzero(row > -np.inf)
    if filters.top_n_sigma > 0:
        ids = within_sigma(row, ids, filters.top_n_sigma)
    temperature = temperature_of(row, ids, wishes.temperature, filters)
    if temperature < 1e-5 and filters.dynatemp_range > 0:
        return None
    scaled = row * min(np.float32(1) / temperature, np.float32(MAX_F32))
    if not np.isfinite(scaled[ids].max()):
        return None
    differences: F32 = scaled - scaled[ids].max()
    least = np.float32(max(float(np.log(np.float64(wishes.min_p))), reference.LOG_MIN_WEIGHT))
    ids = ids[(differences[ids] >= least) & (reference.weights(differences[ids]) > 0)]
    if wishes.top_k >= 1:
        ids = np.sort(ids[np.lexsort((ids, -differences[ids]))][: wishes.top_k])
    if filters.typical_p < 1:
        ids = typical(differences, ids, filters.typical_p)
    if wishes.top_p < 1:
        falling = ids[np.lexsort((ids, -differences[ids]))]
        masses = reference.weights(differences[falling])
        ids = np.sort(prefix_of_mass(falling, masses, share_of(int(masses.sum()), wishes.top_p)))
    if xtc_uniform(wishes) < filters.xtc_probability:
        ids = without_top_choices(differences, ids, filters.xtc_threshold)
    if filters.mirostat_mu < np.inf:
        surprises = -np.log2(probabilities(reference.weights(differences[ids])))
        best = np.lexsort((ids, -differences[ids]))[0]
        ids = ids[(surprises <= filters.mirostat_mu) | (ids == ids[best])]
    return ids, differences


def xtc_uniform(wishes: Wishes) -> float:
    """A draw of its own: the third word of the counter says what for."""
    return reference.uniform(wishes.seed, wishes.position, purpose=1)


@np.errstate(all="ignore")
def choose(logits: F32, wishes: Wishes, filters: Filters) -> tuple[int, float]:
    """The drawn token and its surprise in bits among those kept, 0 if not these filters drew."""
    row = adjusted(logits, wishes, filters)
    if not filters.draw:
        plain = replace(wishes, prompt=[], answer=[], edits={}, allowed=None)
        return reference.choose(row, plain), 0.0
    row = np.where(np.isnan(row), np.float32(-np.inf), row)
    usable = np.flatnonzero(row > -np.inf)
    if len(usable) == 0:
        return 0, 0.0
    kept = None
    if wishes.temperature > 0 and np.isfinite(row.max()):
        kept = kept_tokens(row, wishes, filters)
    if kept is None:
        factor = np.float32(1)
        if wishes.temperature > 0 and np.isfinite(row.max()) and filters.dynatemp_range == 0:
            factor = min(np.float32(1) / np.float32(wishes.temperature), np.float32(MAX_F32))
        return int(usable[np.argmax((row * factor)[usable])]), 0.0
    ids, differences = kept
    masses = reference.weights(differences[ids])
    at = reference.drawn(masses, reference.uniform(wishes.seed, wishes.position))
    return int(ids[at]), float(-np.log2(probabilities(masses)[at]))


def adjusted(logits: F32, wishes: Wishes, filters: Filters) -> F32:
    out = reference.adjusted(logits, wishes)
    history = wishes.prompt + wishes.answer
    if filters.dry_last_n >= 0:
        history = history[max(0, len(history) - filters.dry_last_n) :]
    for token, penalty in dry_penalties(history, filters).items():
        out[token] -= penalty
    return out


def dry_penalties(history: list[int], filters: Filters) -> dict[int, np.float32]:
    """By definition: every earlier place whose tokens before it are those of the end."""
    if filters.dry_multiplier == 0:
        return {}
    limit = len(history)
    for begin in reversed(range(len(history))):
        lengths = [len(b) for b in filters.dry_breakers if history[begin : begin + len(b)] == b]
        if lengths:
            limit = len(history) - begin - max(lengths)
            break
    longest: dict[int, int] = {}
    for place in range(1, len(history)):
        length = 0
        while length < min(place, limit) and history[place - 1 - length] == history[-1 - length]:
            length += 1
        longest[history[place]] = max(length, longest.get(history[place], 0))
    return {
        token: np.float32(filters.dry_multiplier)
        * np.float32(min(float(np.float32(filters.dry_base)) ** (length - allowed), MAX_F32))
        for token, length in longest.items()
        if length >= (allowed := filters.dry_allowed_length) and [token] not in filters.dry_breakers
    }
