"""Loading weights: all checks before the first tensor is packed; values kept; progress told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
import numpy.typing as npt
import pytest
from gguf import GGMLQuantizationType

from octavo.errors import ConfigError, WeightError
from octavo.kernels._native import PackedMatrix, ThreadPool
from octavo.weights.gguf import GGUFFile
from octavo.weights.loader import (
    check_quantization,
    check_weights,
    held_format,
    load_weights,
)
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


@pytest.mark.parametrize(
    ("quantization", "name", "columns", "held"),
    [
        ("int8", "matrix", 64, "Q8_0"),
        ("q8_0", "matrix", 256, "Q8_0"),
        ("q4_0", "matrix", 64, "Q4_0"),
        ("q4_k", "matrix", 256, "Q4_K"),
        ("q4_k", "matrix", 64, "Q4_1"),
        ("q4_k", "output.weight", 256, "Q8_0"),
        ("q4_0", "token_embd.weight", 256, "Q8_0"),
        ("q4_0", "matrix", 40, "BF16"),
    ],
)
def test_float_matrices_are_rounded_as_asked(
    write: Write, quantization: str, name: str, columns: int, held: str
) -> None:
    values = _random(48, columns)
    file = write({name: (values, "BF16"), "norm": GOOD["norm"]})
    weight = Weight(name, (48, columns), ORDER)
    assert held_format(file, weight, "auto", quantization) == held
    check_quantization(file, [weight, NORM], quantization)
    loaded = load_weights(file, [weight, NORM], "auto", ThreadPool(2), quantization=quantization)
    matrix, norm = loaded[name], loaded["norm"]
    assert isinstance(matrix, PackedMatrix)
    assert matrix.format == held
    error = np.abs(matrix.unpack() - values[ORDER]).max() / np.abs(values).max()
    assert error <= {"BF16": 0.004, "Q8_0": 0.008}.get(held, 0.15)
    assert np.array_equal(np.asarray(norm), GOOD["norm"][0])


def test_integer_matrices_keep_the_files_values_beside_float_ones(write: Write) -> None:
    file = write(GOOD | {"floats": (_random(48, 64), "F16")})
    floats = Weight("floats", (48, 64))
    check_quantization(file, [MATRIX, floats, NORM], "q8_0")
    assert held_format(file, MATRIX, "auto", "q8_0") == "Q4_1"
    assert held_format(file, floats, "auto", "q8_0") == "Q8_0"


def test_a_file_without_float_matrices_has_nothing_to_quantise(write: Write) -> None:
    file = write(GOOD)
    check_quantization(file, [MATRIX, NORM, BIAS], "none")
    with pytest.raises(ConfigError, match=r"--quantization is q4_k; .*quantised already \(Q4_1\)"):
        check_quantization(file, [MATRIX, NORM, BIAS], "q4_k")


def test_progress_counts_bytes_up_to_all(write: Write) -> None:
    file = write(GOOD)
    told: list[tuple[int, int]] = []
    load_weights(
        file, [MATRIX, NORM, BIAS], "auto", ThreadPool(1), lambda *counts: told.append(counts)
    )
    total = sum(info.num_bytes for info in file.tensors.values())
    assert [done for done, _ in told] == sorted({done for done, _ in told})
    assert told[-1] == (total, total)
