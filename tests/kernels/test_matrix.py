"""Packing checks sizes before it allocates. What the packed values are is for test_formats."""

from __future__ import annotations

import numpy as np
import pytest

from octavo.kernels import _native as native
from tests.kernels.harness import F32, thread_pool


def pack(
    data: F32, num_rows: int, columns: int, target: str = "F32", order: list[int] | None = None
) -> native.PackedMatrix:
    row_order = None if order is None else np.array(order, np.int32)
    raw = data.reshape(-1).view(np.uint8)
    return native.PackedMatrix.pack(
        thread_pool(2), "F32", raw, num_rows, columns, target, row_order
    )


def test_rows_can_be_reordered_while_packing() -> None:
    data = np.arange(40, dtype=np.float32).reshape(4, 10)
    packed = pack(data, 3, 10, order=[3, 0, 2])
    assert packed.shape == (3, 10)
    assert packed.format == "F32"
    assert np.array_equal(packed.unpack(), data[[3, 0, 2]])


@pytest.mark.parametrize(
    ("num_rows", "columns", "target", "order", "message"),
    [
        (4, 9, "F32", None, "160 bytes do not hold 4 rows of 9 values of F32"),
        (0, 10, "F32", None, "do not hold 0 rows"),
        (-1, 10, "F32", None, "do not hold -1 rows"),
        (2**62, 2**30, "F32", None, "do not hold"),
        (4, 0, "F32", None, "positive number of blocks"),
        (
            4,
            10,
            "Q5_0",
            None,
            "F32 packs as itself, F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q4_K, not",
        ),
        (4, 10, "Q8_0", None, "10 columns do not fit the packed format Q8_0"),
        (4, 10, "Q2_K", None, '"Q2_K" is not a tensor type'),
        (2, 10, "F32", [0, 4], r"row_order\[1\] is 4 of 4 source rows"),
        (2, 10, "F32", [-1, 0], r"row_order\[0\] is -1"),
        (3, 10, "F32", [0, 1], "row_order has 2 entries for 3 rows"),
        (2, 7, "F32", [0, 1], "no whole number of rows"),
    ],
)
def test_matrices_that_do_not_fit_their_data_are_refused(
    num_rows: int, columns: int, target: str, order: list[int] | None, message: str
) -> None:
    data = np.zeros((4, 10), np.float32)
    with pytest.raises(ValueError, match=message):
        pack(data, num_rows, columns, target, order)


def test_matrices_in_one_memory_keep_their_values_when_others_go() -> None:
    memory = native.WeightMemory(1 << 20)
    data = [np.full((3, 5), value, np.float32) for value in range(4)]
    raw = [values.reshape(-1).view(np.uint8) for values in data]
    packed = [
        native.PackedMatrix.pack(thread_pool(2), "F32", one, 3, 5, "F32", memory=memory)
        for one in raw
    ]
    del packed[1], memory
    for index, matrix in zip((0, 2, 3), packed, strict=True):
        assert np.array_equal(matrix.unpack(), data[index])
