"""Well-formed files: everything that the `gguf` package reads or writes, read the same."""

from __future__ import annotations

import time
from pathlib import Path

import gguf
import numpy as np
import numpy.typing as npt
import pytest

from octavo.core.packed_texts import PackedTexts
from octavo.errors import WeightError
from octavo.weights.gguf import GGUFFile, TensorInfo
from octavo.weights.gguf_types import SUPPORTED_TENSOR_TYPES, TENSOR_TYPES
from octavo.weights.metadata import MetadataValue

Array = npt.NDArray[np.float32] | npt.NDArray[np.float16]

SCALARS = {
    "u8": ("add_uint8", 200),
    "i8": ("add_int8", -100),
    "u16": ("add_uint16", 60_000),
    "i16": ("add_int16", -30_000),
    "u32": ("add_uint32", 2**32 - 1),
    "i32": ("add_int32", -(2**31)),
    "u64": ("add_uint64", 2**64 - 1),
    "i64": ("add_int64", -(2**63)),
    "f32": ("add_float32", 0.5),
    "f64": ("add_float64", 0.1),
    "yes": ("add_bool", True),
    "no": ("add_bool", False),
    "text": ("add_string", "grüße 🎉"),
    "strings": ("add_array", ["a", "", "日本語"]),
    "ints": ("add_array", [1, -2, 3]),
    "floats": ("add_array", [0.5, 1.5]),
    "truths": ("add_array", [True, False]),
}


def write(path: Path, tensors: dict[str, Array], alignment: int | None = None) -> Path:
    writer = gguf.GGUFWriter(path, "llama")
    if alignment is not None:
        writer.add_custom_alignment(alignment)
    for key, (method, value) in SCALARS.items():
        getattr(writer, method)(f"test.{key}", value)
    for name, array in tensors.items():
        writer.add_tensor(name, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def plain(value: MetadataValue) -> object:
    if isinstance(value, PackedTexts):
        return list(value)
    return value.tolist() if isinstance(value, np.ndarray) else value


def test_metadata_of_every_type_is_read(tmp_path: Path) -> None:
    metadata = GGUFFile.open(write(tmp_path / "m.gguf", {"t": np.ones(1, np.float32)})).metadata
    for key, (_, value) in SCALARS.items():
        found = plain(metadata[f"test.{key}"])
        assert found == value
        assert type(found) is type(value)


@pytest.mark.parametrize("alignment", [None, 8, 64, 4096])
def test_tensors_are_found_at_their_bytes(tmp_path: Path, alignment: int | None) -> None:
    generator = np.random.default_rng(1)
    arrays: dict[str, Array] = {
        "matrix": generator.standard_normal((3, 5)).astype(np.float32),
        "half": generator.standard_normal((2, 3, 4)).astype(np.float16),
        "vector": generator.standard_normal(7).astype(np.float32),
    }
    with GGUFFile.open(write(tmp_path / "t.gguf", arrays, alignment)) as file:
        assert list(file.tensors) == list(arrays)
        for name, array in arrays.items():
            assert file.tensors[name].shape == array.shape
            assert file.tensors[name].offset % (alignment or 32) == 0
            assert file.data(name).tobytes() == array.tobytes()


@pytest.mark.parametrize("type_name", [t for t in SUPPORTED_TENSOR_TYPES if t[0] == "Q"])
def test_quantised_tensors_are_found_at_their_bytes(tmp_path: Path, type_name: str) -> None:
    quantisation = gguf.GGMLQuantizationType[type_name]
    values, size = gguf.GGML_QUANT_SIZES[quantisation]
    rows = np.random.default_rng(2).integers(0, 256, (4, 3 * size), dtype=np.uint8)
    writer = gguf.GGUFWriter(tmp_path / "q.gguf", "llama")
    writer.add_tensor("w", rows, raw_dtype=quantisation)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    file = GGUFFile.open(tmp_path / "q.gguf")
    info = file.tensors["w"]
    assert info == TensorInfo("w", type_name, (4, 3 * values), info.offset, rows.nbytes)
    assert file.data("w").tobytes() == rows.tobytes()


def test_type_table_agrees_with_the_gguf_package() -> None:
    for number, known in TENSOR_TYPES.items():
        quantisation = gguf.GGMLQuantizationType(number)
        assert known.name == quantisation.name
        assert gguf.GGML_QUANT_SIZES[quantisation] == (known.block_values, known.block_bytes)


def test_a_type_without_kernels_is_described_but_its_data_refused(tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(tmp_path / "iq.gguf", "llama")
    rows = np.zeros((2, 136), np.uint8)
    writer.add_tensor("w", rows, raw_dtype=gguf.GGMLQuantizationType.IQ4_XS)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    file = GGUFFile.open(tmp_path / "iq.gguf")
    assert file.tensors["w"].shape == (2, 256)
    with pytest.raises(WeightError, match=r"'w' has type IQ4_XS.*supported: F32, .*Q6_K"):
        file.data("w")


def test_smollm2_equals_the_gguf_package(smollm2_path: Path) -> None:
    reader = gguf.GGUFReader(smollm2_path)
    file = GGUFFile.open(smollm2_path)
    theirs = {key: field for key, field in reader.fields.items() if not key.startswith("GGUF.")}
    assert list(file.metadata) == list(theirs)
    for key, field in theirs.items():
        ours = file.metadata[key]
        assert plain(ours) == field.contents(), key
    assert list(file.tensors) == [tensor.name for tensor in reader.tensors]
    for tensor in reader.tensors:
        info = file.tensors[tensor.name]
        assert info.shape == tuple(int(dim) for dim in reversed(tensor.shape))
        assert (info.type_name, info.offset) == (tensor.tensor_type.name, tensor.data_offset)
        assert np.array_equal(file.data(info.name), tensor.data.reshape(-1).view(np.uint8))


def test_a_vocabulary_of_262k_tokens_is_read_soon(gemma3_path: Path) -> None:
    GGUFFile.open(gemma3_path)
    start = time.process_time()
    file = GGUFFile.open(gemma3_path)
    assert time.process_time() - start < 2.5
    tokens = file.metadata["tokenizer.ggml.tokens"]
    assert isinstance(tokens, PackedTexts)
    assert len(tokens) == 262_144
    assert [tokens[index] for index in range(3)] == ["<pad>", "<eos>", "<bos>"]


def test_release_gives_memory_back_and_data_stays_readable(tmp_path: Path) -> None:
    array = np.random.default_rng(3).standard_normal((4096, 1024)).astype(np.float32)
    file = GGUFFile.open(write(tmp_path / "big.gguf", {"w": array}))
    first = file.data("w").tobytes()
    before = _resident_file_bytes()
    file.release()
    assert before - _resident_file_bytes() > array.nbytes // 2
    assert file.data("w").tobytes() == first


def test_arrays_outlive_the_file(tmp_path: Path) -> None:
    array = np.arange(100, dtype=np.float32)
    with GGUFFile.open(write(tmp_path / "c.gguf", {"w": array})) as file:
        data = file.data("w")
    assert data.view(np.float32).tolist() == array.tolist()
    assert not data.flags.writeable
    with pytest.raises(ValueError, match="closed"):
        file.data("w")


def test_a_missing_tensor_is_named(tmp_path: Path) -> None:
    file = GGUFFile.open(write(tmp_path / "n.gguf", {"w": np.ones(1, np.float32)}))
    with pytest.raises(WeightError, match="has no tensor 'v'"):
        file.data("v")


def _resident_file_bytes() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssFile:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("this kernel does not report RssFile")
