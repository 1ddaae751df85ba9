"""Loading weights: all checks before the first tensor is packed; values kept; progress told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
import numpy.typing as npt
import pytest
from gguf import GGMLQuantizationType

from octavo.errors import WeightError
from octavo.kernels._native import PackedMatrix, ThreadPool
from octavo.weights.gguf import GGUFFile
from octavo.weights.loader import check_weights, held_format, load_weights
from octavo.weights.weight import Weight

Write = Callable[[dict[str, tuple[npt.NDArray[np.float32], str]]], GGUFFile]
ORDER = np.array([3, 1, 2, 0, *range(4, 48)], np.int32)
MATRIX = Weight("matrix", (48, 64), ORDER)
NORM = Weight("norm", (64,))
BIAS = Weight("bias", (48,), ORDER)


def _random(*shape: int) -> npt.NDArray[np.float32]:
    return np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32)


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(tensors: dict[str, tuple[npt.NDArray[np.float32], str]]) -> GGUFFile:
        writer = gguf.GGUFWriter(tmp_path / "model.gguf", "llama")
        for name, (values, type_name) in tensors.items():
            kind = GGMLQuantizationType[type_name]
            writer.add_tensor(name, gguf.quants.quantize(values, kind), raw_dtype=kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return GGUFFile.open(tmp_path / "model.gguf")

    return write


GOOD = {
    "matrix": (_random(48, 64), "Q4_1"),
    "norm": (_random(64), "F32"),
    "bias": (_random(48), "F16"),
}


def test_a_missing_tensor_is_named(write: Write) -> None:
    file = write({"norm": GOOD["norm"]})
    with pytest.raises(WeightError, match=r"no tensor matrix; \(48, 64\)"):
        check_weights(file, [NORM, MATRIX])


def test_a_wrong_shape_is_named_with_its_place(write: Write) -> None:
    file = write(GOOD | {"matrix": (_random(64, 64), "Q4_1")})
    with pytest.raises(WeightError, match=r"byte \d+.*matrix has shape \(64, 64\); \(48, 64\)"):
        check_weights(file, [NORM, MATRIX, BIAS])


def test_an_unsupported_type_is_named(write: Write) -> None:
    file = write(GOOD | {"matrix": (_random(48, 256), "TQ1_0")})
    with pytest.raises(WeightError, match=r"matrix has type TQ1_0; supported: F32"):
        check_weights(file, [NORM, Weight("matrix", (48, 256)), BIAS])


def test_a_tensor_that_would_be_left_out_is_named(write: Write) -> None:
    file = write(GOOD)
    with pytest.raises(WeightError, match="tensor bias is no part of the model"):
        check_weights(file, [NORM, MATRIX])
    check_weights(file, [NORM, MATRIX], other_tensors=["bias"])


def test_values_are_the_files_in_the_order_of_the_model(write: Write) -> None:
    file = write(GOOD)
    loaded = load_weights(file, [MATRIX, NORM, BIAS], "auto", ThreadPool(2))
    matrix = loaded["matrix"]
    assert isinstance(matrix, PackedMatrix)
    assert matrix.format == "Q4_1"
    kind = GGMLQuantizationType.Q4_1
    kept = gguf.quants.dequantize(gguf.quants.quantize(GOOD["matrix"][0], kind), kind)
    assert np.array_equal(matrix.unpack(), kept[ORDER])
    assert np.array_equal(np.asarray(loaded["norm"]), GOOD["norm"][0])
    assert np.array_equal(
        np.asarray(loaded["bias"]), GOOD["bias"][0].astype(np.float16).astype(np.float32)[ORDER]
    )


def test_dtype_dequantises_matrices(write: Write) -> None:
    file = write(GOOD)
    exact = load_weights(file, [MATRIX], "auto", ThreadPool(1))["matrix"]
    assert isinstance(exact, PackedMatrix)
    for dtype, name in (("float32", "F32"), ("float16", "F16"), ("bfloat16", "BF16")):
        assert held_format(file, MATRIX, dtype) == name
        matrix = load_weights(file, [MATRIX], dtype, ThreadPool(1))["matrix"]
        assert isinstance(matrix, PackedMatrix)
        assert matrix.format == name
        tolerance = {"F32": 0.0, "F16": 2e-3, "BF16": 2e-2}[name]
        assert np.abs(matrix.unpack() - exact.unpack()).max() <= tolerance


def test_progress_counts_bytes_up_to_all(write: Write) -> None:
    file = write(GOOD)
    told: list[tuple[int, int]] = []
    load_weights(
        file, [MATRIX, NORM, BIAS], "auto", ThreadPool(1), lambda *counts: told.append(counts)
    )
    total = sum(info.num_bytes for info in file.tensors.values())
    assert [done for done, _ in told] == sorted({done for done, _ in told})
    assert told[-1] == (total, total)
