"""Hostile and broken files (case L8): a typed one-line error, at once, whatever the bytes say."""

from __future__ import annotations

import os
import struct
import time
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from octavo.core.packed_texts import PackedTexts
from octavo.errors import WeightError
from octavo.weights.gguf import GGUFFile

U32, STRING, ARRAY, F32 = 4, 8, 9, 0


def text(value: str | bytes, length: int | None = None) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(data) if length is None else length) + data


def entry(key: str | bytes, value_type: int, value: bytes) -> bytes:
    return text(key) + struct.pack("<I", value_type) + value


def number(key: str, value: int) -> bytes:
    return entry(key, U32, struct.pack("<I", value))


def array(item_type: int, length: int, items: bytes = b"") -> bytes:
    return struct.pack("<IQ", item_type, length) + items


def tensor(
    name: str | bytes = "t",
    dims: tuple[int, ...] = (4,),
    type_number: int = F32,
    offset: int = 0,
    num_dims: int | None = None,
) -> bytes:
    shape = struct.pack(f"<I{len(dims)}Q", len(dims) if num_dims is None else num_dims, *dims)
    return text(name) + shape + struct.pack("<IQ", type_number, offset)


def build(
    keys: list[bytes] | None = None,
    tensors: list[bytes] | None = None,
    *,
    data_bytes: int = 4096,
    version: int = 3,
    num_keys: int | None = None,
    num_tensors: int | None = None,
) -> bytes:
    keys, tensors = keys or [], tensors or []
    counts = (
        len(tensors) if num_tensors is None else num_tensors,
        len(keys) if num_keys is None else num_keys,
    )
    head = b"GGUF" + struct.pack("<IQQ", version, *counts) + b"".join(keys + tensors)
    return head + bytes(-len(head) % 32) + bytes(data_bytes)


def open_bytes(folder: Path, data: bytes) -> GGUFFile:
    path = folder / "model.gguf"
    path.write_bytes(data)
    return GGUFFile.open(path)


def test_the_builder_makes_a_good_file(tmp_path: Path) -> None:
    names = entry("names", ARRAY, array(STRING, 2, text("x") + text("y")))
    file = open_bytes(tmp_path, build([number("a.b", 7), names], [tensor(dims=(4, 2))]))
    assert list(file.metadata) == ["a.b", "names"]
    assert file.metadata["a.b"] == 7
    found = file.metadata["names"]
    assert isinstance(found, PackedTexts)
    assert list(found) == ["x", "y"]
    assert file.tensors["t"].shape == (2, 4)


MALFORMED = {
    "wrong magic": (b"GGML" + build()[4:], "starts with b'GGML'"),
    "version 1": (build(version=1), "version 1; versions 2 and 3"),
    "version 4": (build(version=4), "version 4; versions 2 and 3"),
    "big endian": (build(version=3 << 24), "big-endian"),
    "2^63 tensors": (build(num_tensors=2**63), "number of tensors is 9223372036854775808"),
    "2^63 keys": (build(num_keys=2**63), "number of keys is 9223372036854775808"),
    "more keys than bytes": (build(num_keys=1000, data_bytes=64), "number of keys is 1000"),
    "empty key": (build([number("", 1)]), "key 0 .* is empty"),
    "key twice": (build([number("a", 1), number("a", 2)]), "key 1 .'a'. occurs twice"),
    "key not UTF-8": (build([entry(b"\xff", U32, bytes(4))]), "key 0 is not valid UTF-8"),
    "key of 2^16 bytes": (build([number("k" * 65536, 1)]), "length of key 0 is 65536"),
    "string of 2^63": (build([entry("a", STRING, text("b", 2**63))]), "at most 4\\d\\d\\d can"),
    "string of 2^64-1": (build([entry("a", STRING, text("b", 2**64 - 1))]), "1844674407370955161"),
    "string not UTF-8": (build([entry("a", STRING, text(b"\xc3"))]), "'a' is not valid UTF-8"),
    "array of 2^62": (build([entry("a", ARRAY, array(U32, 2**62))]), "length of 'a' is 461168601"),
    "strings of 2^62": (build([entry("a", ARRAY, array(STRING, 2**62))]), "length of 'a' is 46116"),
    "string in array too long": (
        build([entry("a", ARRAY, array(STRING, 2, text("x") + text("y", 2**40)))]),
        "item 1 of 'a' is 1099511627776",
    ),
    "string in array not UTF-8": (
        build([entry("a", ARRAY, array(STRING, 2, text("x") + text(b"\x80")))]),
        "item 1 of 'a' is not valid UTF-8",
    ),
    "array of arrays": (build([entry("a", ARRAY, array(ARRAY, 1))]), "array of arrays"),
    "array of unknown": (build([entry("a", ARRAY, array(77, 1))]), "items of type 77"),
    "unknown value type": (build([entry("a", 13, bytes(8))]), "value type 13"),
    "truth value 2": (build([entry("a", 7, b"\x02")]), "holds 2 as a truth value"),
    "truth value 2 in array": (build([entry("a", ARRAY, array(7, 2, b"\1\2"))]), "holds 2"),
    "alignment 0": (build([number("general.alignment", 0)]), "alignment is 0"),
    "alignment 48": (build([number("general.alignment", 48)]), "alignment is 48; a power"),
    "alignment text": (build([entry("general.alignment", STRING, text("x"))]), "alignment is 'x'"),
    "dim 0": (build(tensors=[tensor(dims=(0,))]), "'t' has a dimension 0"),
    "later dim 0": (build(tensors=[tensor(dims=(4, 0))]), "'t' has a dimension 0"),
    "dim 2^62": (build(tensors=[tensor(dims=(2**62,))]), "needs 18446744073709551616 bytes"),
    "dim 2^63": (build(tensors=[tensor(dims=(2**63,))]), "dimension 9223372036854775808"),
    "dims that wrap to 0": (build(tensors=[tensor(dims=(2**32, 2**32))]), "the file has"),
    "dims that wrap to 16": (build(tensors=[tensor(dims=(4, 2**62 + 1, 4))]), "the file has"),
    "no dims": (build(tensors=[tensor(dims=())]), "has 0 dimensions"),
    "5 dims": (build(tensors=[tensor(dims=(1,) * 5)]), "has 5 dimensions"),
    "2^32-1 dims": (build(tensors=[tensor(num_dims=2**32 - 1)]), "has 4294967295 dimensions"),
    "empty name": (build(tensors=[tensor("")]), "name of tensor 0 is empty"),
    "long name": (build(tensors=[tensor("n" * 300)]), "length of the name of tensor 0 is 300"),
    "name twice": (build(tensors=[tensor(), tensor(offset=32)]), "'t' occurs twice"),
    "type 4, which was removed": (build(tensors=[tensor(type_number=4)]), "number 4, .*unknown"),
    "type 2^32-1": (build(tensors=[tensor(type_number=2**32 - 1)]), "number 4294967295"),
    "row not of whole blocks": (
        build(tensors=[tensor(dims=(40,), type_number=2)]),
        "rows of 40 values; type Q4_0 needs a multiple of 32",
    ),
    "unaligned offset": (build(tensors=[tensor(offset=4)]), "offset 4, not a multiple"),
    "offset beyond the end": (build(tensors=[tensor(offset=2**20)]), "'t' ends at byte"),
    "offset near 2^64": (build(tensors=[tensor(offset=2**64 - 32)]), "'t' ends at byte"),
    "data past the end": (build(tensors=[tensor(dims=(8,))], data_bytes=16), "'t' ends at byte"),
    "tensors overlap": (
        build(tensors=[tensor("a", (16,)), tensor("b", (16,), offset=32)]),
        "'a' and 'b' overlap",
    ),
    "same place": (build(tensors=[tensor("a"), tensor("b")]), "'a' and 'b' overlap"),
    "only a magic": (b"GGUF", "the version needs 4 bytes"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_file_is_refused_in_one_line(tmp_path: Path, name: str) -> None:
    data, message = MALFORMED[name]
    start = time.process_time()
    with pytest.raises(WeightError, match=message) as caught:
        open_bytes(tmp_path, data)
    assert time.process_time() - start < 10
    line = str(caught.value)
    assert line.startswith(str(tmp_path / "model.gguf"))
    assert "\n" not in line
    assert len(line) < 600


def test_error_says_at_which_byte(tmp_path: Path) -> None:
    with pytest.raises(WeightError, match=r"model\.gguf \(byte 4\): is GGUF version 9"):
        open_bytes(tmp_path, build(version=9))


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WeightError, match="no such file"):
        GGUFFile.open(tmp_path / "missing.gguf")
    with pytest.raises(WeightError, match="no such file"):
        GGUFFile.open(tmp_path)
    with pytest.raises(WeightError, match="is empty"):
        open_bytes(tmp_path, b"")


def test_file_cut_at_every_byte_of_its_first_4_kb_is_refused(tmp_path: Path) -> None:
    keys = [number(f"key.{index}", index) for index in range(60)]
    keys.append(entry("tokens", ARRAY, array(STRING, 50, b"".join([text("tok")] * 50))))
    keys.append(entry("scores", ARRAY, array(6, 100, bytes(400))))
    tensors = [tensor(f"blk.{index}", (32, 4), offset=512 * index) for index in range(20)]
    data = build(keys, tensors, data_bytes=512 * 20)
    open_bytes(tmp_path, data)
    path = tmp_path / "model.gguf"
    for length in range(4095, -1, -1):
        os.truncate(path, length)
        with pytest.raises(WeightError):
            GGUFFile.open(path)


@settings(
    max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    flips=st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=12),
    cut=st.integers(0, 40),
)
def test_random_bytes_raise_nothing_but_a_weight_error(
    tmp_path: Path, flips: list[tuple[int, int]], cut: int
) -> None:
    keys = [
        number("general.alignment", 32),
        entry("tokens", ARRAY, array(STRING, 3, text("a") + text("") + text("é"))),
        entry("flags", ARRAY, array(7, 3, b"\1\0\1")),
        entry("name", STRING, text("model")),
    ]
    tensors = [tensor("a", (32, 2), 2), tensor("b", (4, 2, 2), 0, 64)]
    data = bytearray(build(keys, tensors, data_bytes=256))
    head = len(data) - 256
    for position, value in flips:
        data[position % head] = value
    file = None
    with suppress(WeightError):
        file = open_bytes(tmp_path, bytes(data[: len(data) - cut]))
    if file is None:
        return
    for name, info in file.tensors.items():
        with suppress(WeightError):  # the type may have become one without kernels
            assert file.data(name).nbytes == info.num_bytes
