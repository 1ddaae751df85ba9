"""A file appears in the cache whole and checked, or not at all."""

from __future__ import annotations

import hashlib
import multiprocessing
import time
from pathlib import Path

import pytest

from octavo.errors import FetchError
from octavo.hub import cache

CONTENT = b"model" * 1000
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCTAVO_CACHE_DIR", str(tmp_path))
    cache.models_folder().mkdir(parents=True)


def test_a_right_file_is_stored_and_found() -> None:
    path = cache.store("m.gguf", [CONTENT], num_bytes=len(CONTENT), sha256=SHA256)
    assert path.read_bytes() == CONTENT
    assert cache.cached_file("m.gguf", len(CONTENT)) == path
    assert cache.cached_models() == [path]


@pytest.mark.parametrize(
    "chunks",
    [[CONTENT[:-1]], [CONTENT, b"x"], [CONTENT[:-1], b"x"], []],
    ids=["short", "long", "altered", "empty"],
)
def test_a_wrong_file_is_refused_and_leaves_nothing(chunks: list[bytes]) -> None:
    with pytest.raises(FetchError):
        cache.store("m.gguf", chunks, num_bytes=len(CONTENT), sha256=SHA256)
    assert list(cache.models_folder().iterdir()) == []


def test_a_cache_that_cannot_be_written_is_told_with_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("OCTAVO_CACHE_DIR", str(tmp_path / "file"))
    with (
        pytest.raises(FetchError, match=r"file/models cannot be written: .*OCTAVO_CACHE_DIR"),
        cache.exclusive("m.gguf"),
    ):
        pass


def test_a_broken_source_leaves_nothing() -> None:
    def chunks() -> object:
        yield CONTENT[:10]
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        cache.store("m.gguf", chunks(), num_bytes=len(CONTENT), sha256=SHA256)  # type: ignore[arg-type]
    assert list(cache.models_folder().iterdir()) == []


def test_a_file_of_another_size_is_not_taken() -> None:
    (cache.models_folder() / "m.gguf").write_bytes(CONTENT)
    assert cache.cached_file("m.gguf", len(CONTENT) + 1) is None


def test_a_full_disk_is_refused_before_the_download() -> None:
    with pytest.raises(FetchError, match="OCTAVO_CACHE_DIR"):
        cache.require_disk_space(1 << 60)


def _hold(started: object, seconds: float) -> None:
    with cache.exclusive("m.gguf"):
        started.set()  # type: ignore[attr-defined]
        time.sleep(seconds)


def test_a_second_process_waits_for_the_first() -> None:
    context = multiprocessing.get_context("fork")
    started = context.Event()
    holder = context.Process(target=_hold, args=(started, 0.3))
    holder.start()
    assert started.wait(10)
    begin = time.monotonic()
    with cache.exclusive("m.gguf"):
        assert time.monotonic() - begin > 0.1
    holder.join()
