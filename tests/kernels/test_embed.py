"""Embedding rows gathered from packed matrices."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels import matrices
from tests.kernels.harness import F32, LEVELS, OneKernel, StepArrays


def run_embed(level: str, type_name: str, ids: list[int], scale: float) -> tuple[F32, F32]:
    """The kernel's rows, and the whole matrix."""
    data = matrices.random_tensor(np.random.default_rng(1), type_name, 41, 256)
    packed = matrices.pack(type_name, data, 41, 256)
    kernel = OneKernel(level, 2)
    out = kernel.output(256)
    step = StepArrays(len(ids), token_ids=np.array(ids, np.int32))
    kernel.run("embed", [matrices.matrix(packed)], [out], [], [scale], step=step)
    return kernel.read(out, len(ids)), packed.unpack()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("type_name", matrices.FORMATS)
def test_rows_are_gathered_and_scaled(level: str, type_name: str) -> None:
    ids = [0, 40, 17, 17, 3, 16, 15]
    rows, table = run_embed(level, type_name, ids, 24.5)
    assert (rows == table[ids] * np.float32(24.5)).all()


@pytest.mark.parametrize("level", LEVELS)
def test_ids_outside_the_matrix_stay_inside_it(level: str) -> None:
    rows, table = run_embed(level, "Q8_0", [-1, 41, 2**31 - 1, -(2**31)], 1.0)
    assert (rows == table[[0, 40, 40, 0]]).all()
