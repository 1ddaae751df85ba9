"""From a checked file to packed weights. Every tensor is checked before the first is packed.

Knows no architecture: a model's list of `Weight`s says what is needed. Takes file pages no longer
than it must, so that memory stays near the packed size.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from octavo.errors import WeightError
from octavo.kernels._native import PackedMatrix, ThreadPool, WeightMemory, dequantize
from octavo.weights.gguf import GGUFFile, TensorInfo
from octavo.weights.gguf_types import SUPPORTED_TENSOR_TYPES
from octavo.weights.weight import Weight

Progress = Callable[[int, int], None]
"""Called with (bytes of the file done, bytes in all) while weights are packed."""

LoadedWeights = Mapping[str, PackedMatrix | npt.NDArray[np.float32]]
"""Matrices packed, vectors in float32, by name."""

FLOAT_FORMATS = {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}
"""Format in which matrices are held, by the `dtype` option that asks for it."""

RELEASE_EVERY_BYTES = 32 << 20


def held_format(file: GGUFFile, weight: Weight, dtype: str) -> str:
    """The format that a matrix is held in: the file's own, or what `dtype` asks for."""
    return file.tensors[weight.name].type_name if dtype == "auto" else FLOAT_FORMATS[dtype]


def is_integer_format(name: str) -> bool:
    return name not in FLOAT_FORMATS.values()


def check_weights(
    file: GGUFFile, weights: Sequence[Weight], other_tensors: Collection[str] = ()
) -> None:
    """Raise `WeightError` unless the file has these tensors, in these shapes, and no others.

    A tensor that the model would leave out changes what it computes, so it is an error too;
    `other_tensors` are known to be used elsewhere.
    """
    for weight in weights:
        info = file.tensors.get(weight.name)
        if info is None:
            raise WeightError(file.path, f"has no tensor {weight.name}; {weight.shape} is needed")
        if info.shape != weight.shape:
            raise _refused(file, info, f"has shape {info.shape}; {weight.shape} is needed")
        if info.type_name not in SUPPORTED_TENSOR_TYPES:
            supported = ", ".join(SUPPORTED_TENSOR_TYPES)
            raise _refused(file, info, f"has type {info.type_name}; supported: {supported}")
    known = {weight.name for weight in weights}.union(other_tensors)
    for name, info in file.tensors.items():
        if name not in known:
            raise _refused(file, info, "is no part of the model that the file's metadata describes")


def load_weights(
    file: GGUFFile,
    weights: Sequence[Weight],
    dtype: str,
    pool: ThreadPool,
    progress: Progress | None = None,
) -> LoadedWeights:
    """Pack the weights, which `check_weights` has passed, with the threads of `pool`.

    `dtype` is "auto", "float32", "float16" or "bfloat16". Matrices of integer types keep their
    values exactly under "auto". Raises `WeightError` for a tensor that cannot be packed.
    """
    total_bytes = sum(file.tensors[weight.name].num_bytes for weight in weights)
    done_bytes = unreleased_bytes = 0
    loaded: dict[str, PackedMatrix | npt.NDArray[np.float32]] = {}
    memory = WeightMemory()
    for weight in weights:
        loaded[weight.name] = _load(file, weight, dtype, pool, memory)
        num_bytes = file.tensors[weight.name].num_bytes
        done_bytes += num_bytes
        unreleased_bytes += num_bytes
        if unreleased_bytes >= RELEASE_EVERY_BYTES or done_bytes == total_bytes:
            file.release()
            unreleased_bytes = 0
        if progress is not None:
            progress(done_bytes, total_bytes)
    return loaded


def _load(
    file: GGUFFile, weight: Weight, dtype: str, pool: ThreadPool, memory: WeightMemory
) -> PackedMatrix | npt.NDArray[np.float32]:
    info = file.tensors[weight.name]
    data = file.data(weight.name)
    try:
        if not weight.is_matrix:
            values = dequantize(info.type_name, data, weight.shape[0])
            return values if weight.row_order is None else values[weight.row_order]
        rows, columns = weight.shape
        target = held_format(file, weight, dtype)
        return PackedMatrix.pack(
            pool, info.type_name, data, rows, columns, target, weight.row_order, memory
        )
    except ValueError as error:
        raise _refused(file, info, f"cannot be packed: {error}") from None


def _refused(file: GGUFFile, info: TensorInfo, what: str) -> WeightError:
    return WeightError(file.path, f"tensor {info.name} {what}", offset=info.offset)
