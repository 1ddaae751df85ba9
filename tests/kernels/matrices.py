"""Random GGUF tensors, packed operands, and the int8 activations that the kernels multiply with."""

from __future__ import annotations

import gguf
import numpy as np
import numpy.typing as npt
from gguf import quants

from octavo.kernels import DType, OperandKind, _native
from tests.kernels.harness import F32, F64, I32, thread_pool

U8 = npt.NDArray[np.uint8]

GROUP = 32
FLOAT_FORMATS = ["F32", "F16", "BF16"]
LEGACY_FORMATS = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"]
K_FORMATS = ["Q4_K", "Q5_K", "Q6_K"]
INTEGER_FORMATS = LEGACY_FORMATS + K_FORMATS
FORMATS = FLOAT_FORMATS + INTEGER_FORMATS

# Byte offsets of the fp16 numbers in a block.
_HALVES = {"Q4_0": (0,), "Q5_0": (0,), "Q8_0": (0,), "Q4_1": (0, 2), "Q5_1": (0, 2)}
_HALVES |= {"Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,)}


def random_tensor(
    rng: np.random.Generator, type_name: str, rows: int, columns: int, scale: float | None = None
) -> U8:
    """Row-major bytes of a tensor [rows, columns] with random codes.

    The fp16 scales are `scale` where given, otherwise random of either sign.
    """
    if type_name in FLOAT_FORMATS:
        values = rng.standard_normal((rows, columns)).astype(np.float32)
        return as_type(type_name, values)
    values_per_block, block_bytes = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[type_name]]
    blocks = rng.integers(0, 256, (rows, columns // values_per_block, block_bytes), np.uint8)
    for offset in _HALVES[type_name]:
        halves = rng.normal(0, 0.01, blocks.shape[:2]).astype(np.float16)
        if scale is not None:
            halves[:] = scale
        blocks[..., offset : offset + 2] = halves[..., None].view(np.uint8)
    return blocks.reshape(rows, -1)


def dequantized(type_name: str, data: U8) -> F32:
    """What the `gguf` package makes of it."""
    values: F32 = quants.dequantize(data, gguf.GGMLQuantizationType[type_name])
    return values


def as_type(type_name: str, values: F32) -> U8:
    """Bytes of `values` as a tensor of a float type, rounded by the `gguf` package."""
    data: U8 = quants.quantize(values, gguf.GGMLQuantizationType[type_name]).view(np.uint8)
    return data


def pack(
    type_name: str,
    data: U8,
    rows: int,
    columns: int,
    target: str | None = None,
    row_order: I32 | None = None,
    level: str | None = None,
) -> _native.PackedMatrix:
    """The tensor [rows, columns] in its own format, or in `target`, to which `level` rounds it."""
    return _native.PackedMatrix.pack(
        thread_pool(1),
        type_name,
        data.reshape(-1),
        rows,
        columns,
        target or type_name,
        row_order,
        None,
        level,
    )


def matrix(packed: _native.PackedMatrix) -> _native.OperandSpec:
    return (OperandKind.MATRIX, 0, DType.F32, packed.shape[0], 0, 0, 0, packed)


def panel_sizes(rows: int, row_block: int) -> list[int]:
    """Rows of each panel of int8 activations: nearly equal; one panel or an even number of them."""
    count = -(-rows // row_block)
    count += count > 1 and count % 2
    return [(p + 1) * rows // count - p * rows // count for p in range(count)]


def quantized(x: F32) -> tuple[npt.NDArray[np.int8], F32]:
    """int8 values [rows, groups, 32] and scales [rows, groups] of x [rows, columns]."""
    groups = x.reshape(len(x), -1, GROUP)
    largest = np.abs(groups).max(axis=2)
    some = largest >= np.float32(2.0**-100)
    inverse = np.divide(np.float32(127), largest, out=np.zeros_like(largest), where=some)
    codes = np.rint(groups * inverse[..., None]).astype(np.int8)
    return codes, np.where(some, largest / np.float32(127), np.float32(0))


def rounded(x: F32) -> F64:
    """x [rows, columns] after the round trip through int8."""
    codes, scales = quantized(x)
    return (codes * scales.astype(np.float64)[..., None]).reshape(len(x), -1)
