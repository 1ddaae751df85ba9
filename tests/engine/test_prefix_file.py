"""What is saved is read back; what does not check is left out, and never an error."""

from __future__ import annotations

import stat
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from octavo.engine.prefix_file import (
    PageFormat,
    UnusableFile,
    read_prefix_file,
    write_prefix_file,
)
from octavo.kv.saved_pages import NO_PARENT, SavedPage

U8 = npt.NDArray[np.uint8]

FORMAT = PageFormat(page_tokens=2, num_groups=2, page_bytes=96, identity=b"i" * 32)
HEADER_BYTES = 76
SCOPE = b"s" * 32
RECORDS = [
    SavedPage(NO_PARENT, 0, SCOPE, (1, 2)),
    SavedPage(0, 0, SCOPE, (3, 4)),
    SavedPage(NO_PARENT, 0, b"t" * 32, (1, 2)),
    SavedPage(1, 0, SCOPE, (5, 6)),
    SavedPage(0, 1, SCOPE, (7, 8)),
]


def contents() -> list[U8]:
    rng = np.random.default_rng(3)
    return [rng.integers(0, 256, FORMAT.page_bytes, dtype=np.uint8) for _ in RECORDS]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "model.prefixes"
    write_prefix_file(path, FORMAT, RECORDS, contents())
    return path


def test_everything_comes_back_and_nothing_else_is_left(path: Path) -> None:
    records, read, num_bad = read_prefix_file(path, FORMAT)
    assert (records, num_bad) == (RECORDS, 0)
    np.testing.assert_array_equal(read, contents())
    assert list(path.parent.iterdir()) == [path]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.stat().st_size == HEADER_BYTES + len(RECORDS) * FORMAT.record_bytes


def test_the_bound_in_bytes_holds() -> None:
    size = HEADER_BYTES + 5 * FORMAT.record_bytes
    assert FORMAT.max_pages(size) == 5
    assert FORMAT.max_pages(size - 1) == 4
    assert FORMAT.max_pages(1) == 0


@pytest.mark.parametrize(
    ("offset", "bad"),
    [
        (8 + 32, [0, 1, 3, 4]),  # a token of the first page: what follows it goes with it
        (4, [0, 1, 3, 4]),  # its group
        (8, [0, 1, 3, 4]),  # its scope
        (8 + 32 + 8, [0, 1, 3, 4]),  # its checksum
        (FORMAT.record_bytes - 1, [0, 1, 3, 4]),  # its content
        (FORMAT.record_bytes, [1, 3]),  # the parent of the second
        (2 * FORMAT.record_bytes + 60, [2]),
        (4 * FORMAT.record_bytes + 60, [4]),
    ],
)
def test_a_damaged_record_is_left_out_with_all_that_follows_from_it(
    path: Path, offset: int, bad: list[int]
) -> None:
    data = bytearray(path.read_bytes())
    data[HEADER_BYTES + offset] ^= 2
    path.write_bytes(data)
    records, read, num_bad = read_prefix_file(path, FORMAT)
    kept = [number for number in range(len(RECORDS)) if number not in bad]
    assert num_bad == len(bad)
    assert [record.token_ids for record in records] == [RECORDS[at].token_ids for at in kept]
    np.testing.assert_array_equal(read, [contents()[at] for at in kept])
    for record in records:  # the text is the same as before
        parent = None if record.parent == NO_PARENT else records[record.parent].token_ids
        before = RECORDS[[one[1:] for one in RECORDS].index(record[1:])].parent
        assert parent == (None if before == NO_PARENT else RECORDS[before].token_ids)


def test_a_record_cannot_be_moved_under_another_parent(path: Path) -> None:
    data = bytearray(path.read_bytes())
    start = HEADER_BYTES + 3 * FORMAT.record_bytes
    data[start : start + 4] = (2).to_bytes(4, "little")
    path.write_bytes(data)
    records, _, num_bad = read_prefix_file(path, FORMAT)
    assert (len(records), num_bad) == (4, 1)


@pytest.mark.parametrize(
    "other",
    [
        FORMAT._replace(identity=b"j" * 32),
        FORMAT._replace(page_bytes=95),
        FORMAT._replace(page_tokens=4),
        FORMAT._replace(num_groups=3),
    ],
)
def test_a_file_for_another_model_or_arithmetic_is_refused(path: Path, other: PageFormat) -> None:
    with pytest.raises(UnusableFile, match="another model, other options or another build"):
        read_prefix_file(path, other)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data[:0], "cut off"),
        (lambda data: data[:20], "cut off"),
        (lambda data: data[:-1], "cut off"),
        (lambda data: data + b"x", "cut off"),
        (lambda data: b"X" + data[1:], "no file of cached prefixes"),
        (lambda data: data[:16] + b"\x09" + data[17:], "its format is 9; 2 is read"),
        (lambda data: data[:28] + b"\xff" * 8 + data[36:], "another model"),
        (lambda data: data[:36] + b"\xff" * 8 + data[44:], "cut off"),
    ],
)
def test_a_file_that_is_none_of_ours_is_refused(path: Path, change: object, message: str) -> None:
    assert callable(change)
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(UnusableFile, match=message):
        read_prefix_file(path, FORMAT)


def test_a_failed_write_leaves_the_old_file(path: Path) -> None:
    before = path.read_bytes()

    def failing() -> list[U8]:
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_prefix_file(path, FORMAT, RECORDS, (failing()[0] for _ in RECORDS))
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]
