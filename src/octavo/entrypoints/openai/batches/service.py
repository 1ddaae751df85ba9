"""Files and batches of one server: their folder, and the jobs that run. Knows no route."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from pathlib import Path

from octavo.config.server import ServerConfig
from octavo.config.tenants import Tenants
from octavo.entrypoints.openai.batches.batch_store import BatchStore
from octavo.entrypoints.openai.batches.disk import folder_pepper, lock_folder
from octavo.entrypoints.openai.batches.file_store import FileStore, StoreBounds
from octavo.entrypoints.openai.batches.job import Answerer, BatchJob
from octavo.entrypoints.openai.batches.objects import BatchError, BatchRecord
from octavo.entrypoints.openai.intake.entries import Interrupted
from octavo.errors import InvalidRequest

logger = logging.getLogger(__name__)


class BatchService:
    """Holds the folder until `close`. Raises ConfigError if it cannot."""

    def __init__(
        self, options: ServerConfig, tenants: Tenants, clock: Callable[[], float] = time.time
    ) -> None:
        folder = Path(options.batch_dir).expanduser()
        self._lock = lock_folder(folder)
        self._clock = clock
        self._max_body_bytes = options.max_body_bytes
        self.pepper = folder_pepper(folder)
        self.batches = BatchStore(folder / "batches", max_closed=options.batch_store_files)
        bounds = StoreBounds(
            max_bytes=options.batch_store_bytes,
            max_files=options.batch_store_files,
            max_file_bytes=options.batch_file_bytes,
            tenant_bytes=lambda tenant: tenants.limits(tenant).max_stored_bytes,
        )
        unfinished = {
            file_id
            for record in self.batches.all_open()
            for file_id in (record.output_id, record.error_id)
        }
        self.files = FileStore(folder / "files", bounds, unfinished, clock)
        self._jobs: dict[str, BatchJob] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._answerer: Answerer | None = None

    def start(self, answerer: Answerer) -> None:
        """Go on with what an earlier server left."""
        self._answerer = answerer
        for record in self.batches.all_open():
            logger.info("batch %s goes on", record.batch.id)
            self.files.hold(record.batch.input_file_id)
            self._run(record)

    async def add(self, record: BatchRecord) -> None:
        """Raises `CapacityError` if too many are open."""
        self.files.hold(record.batch.input_file_id)
        try:
            await self.batches.add(record)
        except BaseException:
            self.files.release(record.batch.input_file_id)
            raise
        self._run(record)

    async def cancel(self, record: BatchRecord) -> None:
        """Raises `InvalidRequest` if it is over. Asked twice, it does nothing more."""
        batch = record.batch
        if batch.status in ("cancelling", "cancelled"):
            return
        if batch.status not in ("validating", "in_progress"):
            raise InvalidRequest(
                f"the batch is {batch.status}; only one that is validating or in_progress can be "
                "cancelled",
                param="batch_id",
                code="batch_is_over",
            )
        await self._jobs[batch.id].cancel()

    async def close(self) -> None:
        """What is not finished goes on when the next server starts."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._lock.close()

    def _run(self, record: BatchRecord) -> None:
        assert self._answerer is not None, "started before it is used"
        job = BatchJob(
            record,
            self.files,
            self.batches,
            self._answerer,
            self._max_body_bytes,
            self._clock,
        )
        self._jobs[record.batch.id] = job
        task = asyncio.create_task(self._watch(job))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _watch(self, job: BatchJob) -> None:
        try:
            await job.run()
        except Interrupted:
            pass
        except Exception:
            logger.exception("batch %s failed", job.batch.id)
            await job.fail([BatchError(code="internal_error", message="the server failed on it")])
        finally:
            del self._jobs[job.batch.id]
