"""The folder of fetched model files: where one lies, and how it appears there whole or not at all.

Knows nothing of where files come from.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from octavo.config.environment import cache_folder
from octavo.errors import FetchError

Progress = Callable[[int, int], None]
"""Called with (bytes so far, bytes in all)."""

CHUNK_BYTES = 1 << 20
SPARE_DISK_BYTES = 64 << 20


def models_folder() -> Path:
    return cache_folder() / "models"


def cached_file(file: str, num_bytes: int) -> Path | None:
    """The file if it lies in the cache. It was checked before it was put there; the size again."""
    path = models_folder() / file
    return path if path.is_file() and path.stat().st_size == num_bytes else None


def cached_models() -> list[Path]:
    """All model files in the cache, by name."""
    folder = models_folder()
    return sorted(folder.glob("*.gguf")) if folder.is_dir() else []


@contextmanager
def exclusive(file: str) -> Iterator[None]:
    """Only one process at a time fetches `file`; others wait here. Freed when a holder dies.

    Raises `FetchError` where the cache cannot be written.
    """
    with _lock_file(file) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _lock_file(file: str) -> TextIO:
    folder = models_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return (folder / f".{file}.lock").open("w")
    except OSError as error:
        raise FetchError(
            f"the cache folder {folder} cannot be written: {error.strerror};"
            " set OCTAVO_CACHE_DIR to one that can"
        ) from None


def require_disk_space(num_bytes: int) -> None:
    """Raise `FetchError` unless the cache's disk has room for `num_bytes` more."""
    free = shutil.disk_usage(models_folder()).free
    needed = num_bytes + SPARE_DISK_BYTES
    if free < needed:
        raise FetchError(
            f"{models_folder()} has {free >> 20} MiB free and {needed >> 20} MiB are needed;"
            f" set OCTAVO_CACHE_DIR to a folder with more room"
        )


def store(file: str, chunks: Iterable[bytes], *, num_bytes: int, sha256: str) -> Path:
    """Write `chunks` to the cache as `file`, if length and SHA-256 are as stated.

    The name appears only when all is right (a rename in one folder is atomic). Raises FetchError.
    """
    target = models_folder() / file
    partial = target.with_name(f".{file}.partial")
    try:
        got_bytes, got_sha256 = _write(partial, chunks, limit_bytes=num_bytes)
        if (got_bytes, got_sha256) != (num_bytes, sha256):
            raise FetchError(
                f"{file}: {got_bytes} bytes with SHA-256 {got_sha256} came,"
                f" {num_bytes} bytes with {sha256} were expected"
            )
        partial.rename(target)
    finally:
        partial.unlink(missing_ok=True)
    return target


def _write(path: Path, chunks: Iterable[bytes], *, limit_bytes: int) -> tuple[int, str]:
    digest = hashlib.sha256()
    written = 0
    with path.open("wb") as out:
        for chunk in chunks:
            written += len(chunk)
            if written > limit_bytes:
                raise FetchError(f"{path.name}: more than the expected {limit_bytes} bytes came")
            digest.update(chunk)
            out.write(chunk)
    return written, digest.hexdigest()
