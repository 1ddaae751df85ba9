"""The GGUF tensor types: dequantised, packed and unpacked value by value as the gguf package."""

from __future__ import annotations

import gguf
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from octavo.kernels import _native
from tests.kernels import matrices
from tests.kernels.harness import F32, thread_pool

SIZES = gguf.GGML_QUANT_SIZES


def same_bits(a: F32, b: F32) -> bool:
    return bool((a.view(np.uint32) == b.view(np.uint32)).all())


@pytest.mark.parametrize("type_name", matrices.FORMATS)
def test_dequantized_bit_for_bit_as_the_gguf_package(type_name: str) -> None:
    data = matrices.random_tensor(np.random.default_rng(1), type_name, 7, 512)
    values = _native.dequantize(type_name, data.reshape(-1), 7 * 512).reshape(7, 512)
    assert same_bits(values, matrices.dequantized(type_name, data))


@pytest.mark.parametrize("type_name", ["F16", "BF16"])
def test_every_half_is_read_exactly(type_name: str) -> None:
    halves = np.arange(1 << 16, dtype=np.uint16)
    values = _native.dequantize(type_name, halves.view(np.uint8), len(halves))
    widened = halves.view(np.float16) if type_name == "F16" else halves.astype(np.uint32) << 16
    with np.errstate(invalid="ignore"):  # Arm tells of signalling NaNs
        expected = widened.astype(np.float32) if type_name == "F16" else widened.view(np.float32)
    assert np.array_equal(values, expected, equal_nan=True)
    assert (np.signbit(values) == (halves >= 0x8000)).all()


@pytest.mark.parametrize("type_name", matrices.INTEGER_FORMATS)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_any_block_with_finite_scales_is_read_exactly(type_name: str, data: st.DataObject) -> None:
    values_per_block, block_bytes = SIZES[gguf.GGMLQuantizationType[type_name]]
    blocks = np.frombuffer(
        data.draw(st.binary(min_size=block_bytes, max_size=block_bytes)), np.uint8
    )
    with np.errstate(all="ignore"):
        expected = matrices.dequantized(type_name, blocks[None])[0]
    values = _native.dequantize(type_name, blocks, values_per_block)
    assert np.array_equal(values, expected, equal_nan=True)


@pytest.mark.parametrize("type_name", matrices.FORMATS)
@pytest.mark.parametrize("rows", [1, 16, 37])
def test_packing_keeps_every_value(type_name: str, rows: int) -> None:
    data = matrices.random_tensor(np.random.default_rng(rows), type_name, rows, 768)
    packed = matrices.pack(type_name, data, rows, 768)
    assert packed.shape == (rows, 768)
    assert packed.format == type_name
    assert (packed.unpack() == matrices.dequantized(type_name, data)).all()


@pytest.mark.parametrize("type_name", matrices.LEGACY_FORMATS)
def test_an_odd_number_of_groups_is_kept(type_name: str) -> None:
    data = matrices.random_tensor(np.random.default_rng(2), type_name, 17, 96)
    packed = matrices.pack(type_name, data, 17, 96)
    assert (packed.unpack() == matrices.dequantized(type_name, data)).all()


@pytest.mark.parametrize("type_name", matrices.FORMATS)
def test_rows_can_be_reordered(type_name: str) -> None:
    rng = np.random.default_rng(3)
    data = matrices.random_tensor(rng, type_name, 40, 256)
    order = rng.permutation(40).astype(np.int32)
    packed = matrices.pack(type_name, data, 40, 256, row_order=order)
    assert (packed.unpack() == matrices.dequantized(type_name, data)[order]).all()


@pytest.mark.parametrize("target", matrices.FLOAT_FORMATS)
@pytest.mark.parametrize("type_name", matrices.FORMATS)
def test_packing_can_dequantise_and_round(type_name: str, target: str) -> None:
    data = matrices.random_tensor(np.random.default_rng(4), type_name, 19, 768)
    values = matrices.dequantized(type_name, data)
    packed = matrices.pack(type_name, data, 19, 768, target=target)
    expected = matrices.as_type(target, values)
    assert packed.format == target
    assert (packed.unpack() == matrices.dequantized(target, expected)).all()


@pytest.mark.parametrize("type_name", matrices.FLOAT_FORMATS)
def test_float_matrices_take_any_number_of_columns(type_name: str) -> None:
    data = matrices.random_tensor(np.random.default_rng(5), type_name, 5, 13)
    packed = matrices.pack(type_name, data, 5, 13)
    assert (packed.unpack() == matrices.dequantized(type_name, data)).all()


@pytest.mark.parametrize("type_name", matrices.INTEGER_FORMATS)
def test_the_packed_size_is_about_the_file_size(type_name: str) -> None:
    data = matrices.random_tensor(np.random.default_rng(6), type_name, 32, 1024)
    packed = matrices.pack(type_name, data, 32, 1024)
    assert data.nbytes <= packed.num_bytes <= 1.03 * data.nbytes


@pytest.mark.parametrize("type_name", matrices.INTEGER_FORMATS)
def test_columns_that_do_not_fit_are_refused(type_name: str) -> None:
    with pytest.raises(ValueError, match="33 values"):
        _native.PackedMatrix.pack(
            thread_pool(1), type_name, np.zeros(100, np.uint8), 1, 33, type_name, None
        )
