"""What a model expects of its file: the name and shape of each tensor. Knows no file."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Weight:
    """A tensor by its name in the file: a matrix `[N rows, K]` or a vector `(width,)`.

    Row (or element) i of the weight that the model computes with is row `row_order[i]` of the file.
    """

    name: str
    shape: tuple[int, ...]
    row_order: npt.NDArray[np.int32] | None = field(default=None, compare=False, repr=False)

    @property
    def is_matrix(self) -> bool:
        return len(self.shape) == 2
