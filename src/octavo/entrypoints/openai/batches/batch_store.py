"""Records of batches in a folder: those that are open, and a bounded number of those that are over.

Knows no HTTP, and not how a batch runs.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from octavo.entrypoints.openai.batches.disk import read_json, write_json
from octavo.entrypoints.openai.batches.objects import BatchRecord
from octavo.errors import CapacityError, NotFound

MAX_OPEN_BATCHES = 64
"""All of them run at the same time, each with a line or more in memory."""


class BatchStore:
    """Of batches that are over the latest `max_closed` are remembered."""

    def __init__(self, folder: Path, max_closed: int) -> None:
        folder.mkdir(mode=0o700, exist_ok=True)
        self._folder = folder
        self._max_closed = max_closed
        records = read_json(folder, BatchRecord)
        records.sort(key=lambda record: (record.batch.created_at, record.batch.id))
        self._records = {record.batch.id: record for record in records}
        self._saving = asyncio.Lock()

    def all_open(self) -> list[BatchRecord]:
        """The oldest first."""
        return [record for record in self._records.values() if record.batch.is_open]

    def get(self, tenant: str, batch_id: str) -> BatchRecord:
        """Raises `NotFound`, whether there is no such batch or it is somebody else's."""
        record = self._records.get(batch_id)
        if record is None or record.tenant != tenant:
            raise NotFound(f"there is no batch {batch_id[:64]!r}", param="batch_id")
        return record

    def of(self, tenant: str) -> list[BatchRecord]:
        """The tenant's batches, the newest first."""
        return [one for one in reversed(self._records.values()) if one.tenant == tenant]

    async def add(self, record: BatchRecord) -> None:
        """Raises `CapacityError` if too many are open."""
        if len(self.all_open()) >= MAX_OPEN_BATCHES:
            raise CapacityError(
                f"{MAX_OPEN_BATCHES} batches are not over yet; no more are allowed",
                code="too_many_batches",
                retry_after_seconds=60,
            )
        self._records[record.batch.id] = record
        await self.save(record)
        self._forget_old()

    async def save(self, record: BatchRecord) -> None:
        async with self._saving:
            await asyncio.to_thread(write_json, self._path(record), record)

    def _forget_old(self) -> None:
        closed = [record for record in self._records.values() if not record.batch.is_open]
        for record in closed[: max(0, len(closed) - self._max_closed)]:
            self._path(record).unlink(missing_ok=True)
            del self._records[record.batch.id]

    def _path(self, record: BatchRecord) -> Path:
        return self._folder / f"{record.batch.id}.json"
