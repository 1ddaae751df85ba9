"""Files that clients store and that batches write: their contents, owners, bounds and ends.

A tenant sees its own files alone. Knows no HTTP and no batch. All methods belong to one event loop.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Container
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from octavo.entrypoints.openai.batches.disk import read_json, write_json
from octavo.entrypoints.openai.batches.objects import StoredFile
from octavo.entrypoints.openai.bodies.ids import new_id
from octavo.errors import InvalidRequest, NotFound, RequestTooLarge

FILE_ID = re.compile(r"file-[0-9a-f]{32}")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreBounds:
    """`tenant_bytes` says what a tenant may hold, if it is bounded."""

    max_bytes: int
    max_files: int
    max_file_bytes: int
    tenant_bytes: Callable[[str], int | None]


class OpenFile:
    """A file that is being written. It counts from the first byte, and is listed once published."""

    def __init__(self, store: FileStore, tenant: str, file_id: str, num_bytes: int = 0) -> None:
        self.id = file_id
        self.tenant = tenant
        self.num_bytes = num_bytes
        self.path = store.path(file_id)
        self._store = store
        self._file = self.path.open("ab", buffering=0)

    def reserve(self, num_bytes: int) -> None:
        """Count bytes that `write` will bring. Raises `RequestTooLarge` beyond a bound."""
        self._store.check_room(self.tenant, num_bytes)
        self._store.count(self.tenant, num_bytes)
        self.num_bytes += num_bytes

    def write(self, data: bytes) -> None:
        """All of it or, with OSError, nothing. It survives the end of this process."""
        start = self._file.tell()
        left = memoryview(data)
        try:
            while left:
                left = left[self._file.write(left) :]
        except OSError:
            self._file.truncate(start)
            raise

    def close(self) -> None:
        self._file.close()

    def close_safely(self) -> None:
        """What was written survives a power cut, too. Takes the time of the disk."""
        os.fsync(self._file.fileno())
        self._file.close()

    def discard(self) -> None:
        """Forget the file, and what it counted."""
        self.close()
        self.path.unlink(missing_ok=True)
        self._store.count(self.tenant, -self.num_bytes)
        self.num_bytes = 0


class FileStore:
    """`unfinished` are ids of files that somebody will go on writing; other contents without a
    description are left over from a crash, and removed."""

    def __init__(
        self,
        folder: Path,
        bounds: StoreBounds,
        unfinished: Container[str] = (),
        clock: Callable[[], float] = time.time,
    ) -> None:
        folder.mkdir(mode=0o700, exist_ok=True)
        self.bounds = bounds
        self._folder = folder
        self._clock = clock
        self._files = {file.id: file for file in read_json(folder, StoredFile)}
        self._num_bytes: Counter[str] = Counter()
        self._holds: Counter[str] = Counter()
        for file in self._files.values():
            self.count(file.tenant, file.bytes)
        for path in folder.iterdir():
            is_content = FILE_ID.fullmatch(path.name) is not None
            if is_content and path.name not in self._files and path.name not in unfinished:
                path.unlink()

    def path(self, file_id: str) -> Path:
        assert FILE_ID.fullmatch(file_id), "ids are ours, or were looked up"
        return self._folder / file_id

    def get(self, tenant: str, file_id: str, param: str = "file_id") -> StoredFile:
        """Raises `NotFound`, whether there is no such file or it is somebody else's."""
        file = self._files.get(file_id)
        if file is None or file.tenant != tenant or self._is_expired(file):
            raise NotFound(f"there is no file {file_id[:64]!r}", param=param)
        return file

    def of(self, tenant: str) -> list[StoredFile]:
        """The tenant's files, the newest first."""
        found = [one for one in self._files.values() if one.tenant == tenant]
        living = [one for one in found if not self._is_expired(one)]
        return sorted(living, key=lambda one: (one.created_at, one.id), reverse=True)

    def begin(self, tenant: str) -> OpenFile:
        """A new file. Raises `RequestTooLarge` if there are too many."""
        self._sweep()
        if len(self._files) >= self.bounds.max_files:
            raise _full(f"{len(self._files)} files are stored; {self.bounds.max_files} are allowed")
        return OpenFile(self, tenant, new_id("file-"))

    def reopen(self, tenant: str, file_id: str) -> OpenFile:
        """One that was begun before, perhaps by a server that is gone, to be written on."""
        path = self.path(file_id)
        if file_id in self._files:  # its batch was not told any more
            self._description(file_id).unlink(missing_ok=True)
            self.count(tenant, -self._files.pop(file_id).bytes)
        num_bytes = path.stat().st_size if path.exists() else 0
        self.count(tenant, num_bytes)
        return OpenFile(self, tenant, file_id, num_bytes)

    async def publish(
        self,
        file: OpenFile,
        *,
        filename: str,
        purpose: Literal["batch", "batch_output"],
        expires_seconds: int | None,
    ) -> StoredFile:
        """From now on it is listed and never changes."""
        await asyncio.to_thread(file.close_safely)
        created_at = int(self._clock())
        stored = StoredFile(
            id=file.id,
            tenant=file.tenant,
            bytes=file.num_bytes,
            created_at=created_at,
            filename=filename,
            purpose=purpose,
            expires_at=None if expires_seconds is None else created_at + expires_seconds,
        )
        await asyncio.to_thread(write_json, self._description(file.id), stored)
        self._files[file.id] = stored
        return stored

    def delete(self, tenant: str, file_id: str) -> None:
        """Raises `NotFound`, or `InvalidRequest` while a batch reads it."""
        file = self.get(tenant, file_id)
        if self._holds[file_id]:
            raise InvalidRequest(
                f"the file {file_id} is the input of a batch that is not over; cancel that first",
                param="file_id",
                code="file_in_use",
            )
        self._remove(file)

    def hold(self, file_id: str) -> None:
        """Keep it until `release`, even beyond its time."""
        self._holds[file_id] += 1

    def release(self, file_id: str) -> None:
        self._holds[file_id] -= 1

    def check_room(self, tenant: str, num_bytes: int) -> None:
        """Raises `RequestTooLarge` if so many bytes more are too many."""
        total, own = self._num_bytes.total() + num_bytes, self._num_bytes[tenant] + num_bytes
        most = self.bounds.tenant_bytes(tenant)
        if total > self.bounds.max_bytes:
            raise _full(f"all files would have {total} bytes; {self.bounds.max_bytes} are allowed")
        if most is not None and own > most:
            raise _full(f"files of this tenant would have {own} bytes; {most} are allowed")

    def count(self, tenant: str, num_bytes: int) -> None:
        self._num_bytes[tenant] += num_bytes

    def _is_expired(self, file: StoredFile) -> bool:
        is_late = file.expires_at is not None and file.expires_at <= self._clock()
        return is_late and not self._holds[file.id]

    def _sweep(self) -> None:
        for file in [one for one in self._files.values() if self._is_expired(one)]:
            self._remove(file)

    def _remove(self, file: StoredFile) -> None:
        """The description first: a content without one is removed at the next start."""
        self._description(file.id).unlink(missing_ok=True)
        self.path(file.id).unlink(missing_ok=True)
        del self._files[file.id]
        self.count(file.tenant, -file.bytes)

    def _description(self, file_id: str) -> Path:
        return self._folder / f"{file_id}.json"


def _full(what: str) -> RequestTooLarge:
    return RequestTooLarge(f"{what}; delete some first", code="storage_full")
