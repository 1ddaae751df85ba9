"""How octavo writes into the folder of files and batches: whole or not at all, and alone."""

from __future__ import annotations

import fcntl
import os
import secrets
from pathlib import Path
from typing import BinaryIO, TypeVar

import msgspec

from octavo.errors import ConfigError

Kind = TypeVar("Kind")
PEPPER_BYTES = 32


def write_json(path: Path, value: object) -> None:
    """Replaces the file at `path`. After a power cut it holds the old value or the new one."""
    draft = path.with_name(f"{path.name}.tmp")
    with draft.open("wb") as file:
        file.write(msgspec.json.encode(value))
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def read_json(folder: Path, kind: type[Kind]) -> list[Kind]:
    """All values in `folder`; drafts that were not finished are removed.

    Raises ConfigError naming a file that holds something else.
    """
    values = []
    for path in sorted(folder.iterdir()):
        if path.suffix == ".tmp":
            path.unlink()
        elif path.suffix == ".json":
            try:
                values.append(msgspec.json.decode(path.read_bytes(), type=kind))
            except msgspec.DecodeError as error:
                raise ConfigError(f"--batch-dir: {path} cannot be read: {error}") from None
    return values


def lock_folder(folder: Path) -> BinaryIO:
    """Makes `folder`, for this user alone, and holds it until the returned file is closed.

    Raises ConfigError if it cannot be made, or another process holds it.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = (folder / "lock").open("wb")
    except OSError as error:
        raise ConfigError(f"--batch-dir: {folder}: {error.strerror}") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise ConfigError(f"--batch-dir: {folder} is in use by another server") from None
    return lock


def folder_pepper(folder: Path) -> bytes:
    """A secret that stays with the folder, so that holders of keys are known again tomorrow."""
    path = folder / "pepper"
    if not path.exists():
        draft = folder / "pepper.tmp"
        draft.touch(mode=0o600)
        draft.write_bytes(secrets.token_bytes(PEPPER_BYTES))
        draft.replace(path)
    pepper = path.read_bytes()
    if len(pepper) != PEPPER_BYTES:
        raise ConfigError(f"--batch-dir: {path} has {len(pepper)} bytes, not {PEPPER_BYTES}")
    return pepper
