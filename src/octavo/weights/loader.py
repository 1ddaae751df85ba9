"""From a checked file to packed weights. Every tensor is checked before the first is packed.

Knows no architecture: a model's list of `Weight`s says what is needed. Takes file pages no longer
than it must, so that memory stays near the packed size.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from octavo.errors import ConfigError, WeightError
from octavo.kernels._native import PackedMatrix, ThreadPool, WeightMemory, dequantize
from octavo.weights.gguf import GGUFFile, TensorInfo
from octavo.weights.gguf_types import SUPPORTED_TENSOR_TYPES
from octavo.weights.quantization import quantized_format
from octavo.weights.weight import Weight

Progress = Callable[[int, int], None]
"""Called with (bytes of the file done, bytes in all) while weights are packed."""

LoadedWeights = Mapping[str, PackedMatrix | npt.NDArray[np.float32]]
"""Matrices packed, vectors in float32, by name."""

FLOAT_FORMATS = {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}
"""Format in which matrices are held, by the `dtype` option that asks for it."""

RELEASE_EVERY_BYTES = 32 << 20

MIN_CHUNK_BYTES = 32 << 20
"""Of the mappings that packed weights lie in."""

READ_AHEAD_BYTES = 64 << 20
"""Of the file, asked for while the tensors before them are packed."""


def held_format(file: GGUFFile, weight: Weight, dtype: str, quantization: str = "none") -> str:
    """The format that a matrix is held in: the file's own, or what the options ask for.

    `quantization` concerns float tensors alone; integer ones keep the file's values.
    """
    if dtype != "auto":
        return FLOAT_FORMATS[dtype]
    own = file.tensors[weight.name].type_name
    if quantization == "none" or is_integer_format(own):
        return own
    return quantized_format(weight, quantization) or own


def is_integer_format(name: str) -> bool:
    return name not in FLOAT_FORMATS.values()


def check_quantization(file: GGUFFile, weights: Sequence[Weight], quantization: str) -> None:
    """Raise `ConfigError` for a file that has nothing to quantise: its values would not change."""
    matrices = [file.tensors[weight.name] for weight in weights if weight.is_matrix]
    types = sorted({info.type_name for info in matrices})
    if quantization != "none" and all(map(is_integer_format, types)):
        raise ConfigError(
            f"--quantization is {quantization}; the matrices of {file.path} are quantised already"
            f" ({', '.join(types)}) and are used as they are"
        )


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
    *,
    quantization: str = "none",
) -> LoadedWeights:
    """Pack the weights, which `check_weights` has passed, with the threads of `pool`.

    `dtype` is "auto", "float32", "float16" or "bfloat16". Matrices of integer types keep their
    values exactly under "auto"; float ones are rounded as `quantization` says. Raises `WeightError`
    for a tensor that cannot be packed.
    """
    # In the order of the file, so that a disk is read once, from front to end.
    weights = sorted(weights, key=lambda weight: file.tensors[weight.name].offset)
    total_bytes = sum(file.tensors[weight.name].num_bytes for weight in weights)
    done_bytes = 0
    loaded: dict[str, PackedMatrix | npt.NDArray[np.float32]] = {}
    memory, pages = WeightMemory(_chunk_bytes(total_bytes)), _FilePages(file)
    for weight in weights:
        info = file.tensors[weight.name]
        pages.before(info)
        target = held_format(file, weight, dtype, quantization) if weight.is_matrix else "F32"
        loaded[weight.name] = _load(file, weight, target, pool, memory)
        pages.after(info)
        done_bytes += info.num_bytes
        if progress is not None:
            progress(done_bytes, total_bytes)
    file.release()
    return loaded


def _chunk_bytes(file_bytes: int) -> int:
    """Room for all that tensors of so many bytes become if they keep their types: packed, scales
    are padded and bytes of their own. What is left over is never touched, and so no memory."""
    return file_bytes + file_bytes // 16 + MIN_CHUNK_BYTES


class _FilePages:
    """The file's pages in memory, while its tensors are taken in order: fetched before they are
    needed, dropped soon after, so that they do not stand beside all packed weights."""

    def __init__(self, file: GGUFFile) -> None:
        self._file = file
        self._fetched_to = 0
        self._unreleased_bytes = 0

    def before(self, info: TensorInfo) -> None:
        end = info.offset + info.num_bytes
        if end + READ_AHEAD_BYTES // 2 > self._fetched_to:
            start = max(info.offset, self._fetched_to)
            self._fetched_to = end + READ_AHEAD_BYTES
            self._file.read_ahead(start, self._fetched_to - start)

    def after(self, info: TensorInfo) -> None:
        self._unreleased_bytes += info.num_bytes
        if self._unreleased_bytes >= RELEASE_EVERY_BYTES:
            self._file.release()
            self._unreleased_bytes = 0


def _load(
    file: GGUFFile, weight: Weight, target: str, pool: ThreadPool, memory: WeightMemory
) -> PackedMatrix | npt.NDArray[np.float32]:
    info = file.tensors[weight.name]
    data = file.data(weight.name)
    try:
        if not weight.is_matrix:
            values = dequantize(info.type_name, data, weight.shape[0])
            return values if weight.row_order is None else values[weight.row_order]
        rows, columns = weight.shape
        return PackedMatrix.pack(
            pool, info.type_name, data, rows, columns, target, weight.row_order, memory
        )
    except ValueError as error:
        raise _refused(file, info, f"cannot be packed: {error}") from None


def _refused(file: GGUFFile, info: TensorInfo, what: str) -> WeightError:
    return WeightError(file.path, f"tensor {info.name} {what}", offset=info.offset)
