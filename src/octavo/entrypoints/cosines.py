"""How alike vectors are, for the offline class and the server alike."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

F32 = npt.NDArray[np.float32]


def cosines(left: F32, right: F32) -> list[float]:
    """Of rows of length 1: each of `right` [texts, dimensions] with its partner in `left`, or with
    its only row."""
    products = left.astype(np.float64) * right
    scores: list[float] = np.add.reduce(products, axis=1).tolist()
    return scores
