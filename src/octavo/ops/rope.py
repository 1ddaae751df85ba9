"""Frequencies of rotary position embedding, computed once. Knows no kernel and no model."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from octavo.core.model_config import RopeConfig


def inverse_frequencies(rope: RopeConfig) -> npt.NDArray[np.float32]:
    """`theta ** (-2i / rotary_dim) / (scale * factors[i])` for i < rotary_dim / 2, float32.

    Su et al. 2021; `scale` is linear interpolation (Chen et al. 2023), `factors` are per-frequency
    divisors as a model file may carry them. Computed in float64 and rounded once.
    """
    exponents = np.arange(0, rope.rotary_dim, 2, dtype=np.float64) / rope.rotary_dim
    divisors = rope.scale * np.asarray(rope.factors or 1.0, np.float64)
    return (rope.theta**-exponents / divisors).astype(np.float32)
