"""One batch on its way: checked, answered line by line, ended. Whatever ends it, results are kept.

Knows no HTTP. `Answerer` makes the record of a line; all else is files.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal, Protocol

import msgspec

from octavo.entrypoints.openai.batches.batch_store import BatchStore
from octavo.entrypoints.openai.batches.file_store import FileStore, OpenFile
from octavo.entrypoints.openai.batches.lines import (
    LineError,
    LineRecord,
    RequestLine,
    add_usage,
    check_input,
    read_lines,
    read_records,
)
from octavo.entrypoints.openai.batches.objects import (
    Batch,
    BatchError,
    BatchErrors,
    BatchRecord,
    BatchUsage,
)
from octavo.entrypoints.openai.intake.entries import Entry, one_by_one
from octavo.errors import RequestTooLarge

logger = logging.getLogger(__name__)

Ending = Literal["completed", "failed", "expired", "cancelled"]

EXPIRED = LineError(
    code="batch_expired", message="the completion window ended before this line was answered"
)
CANCELLED = LineError(
    code="batch_cancelled", message="the batch was cancelled before this line was answered"
)


class Answerer(Protocol):
    """Makes the record of a line, whatever comes of it."""

    async def answer(self, line: RequestLine, tenant: str, entry: Entry) -> LineRecord:
        """Raises `Interrupted` when the server stops."""


class BatchJob:
    """`run` is one task; `cancel` is called from others. Its input is held until it is over."""

    def __init__(
        self,
        record: BatchRecord,
        files: FileStore,
        batches: BatchStore,
        answerer: Answerer,
        max_body_bytes: int,
        clock: Callable[[], float],
    ) -> None:
        self.record = record
        self.batch = record.batch
        self._files = files
        self._batches = batches
        self._answerer = answerer
        self._max_body_bytes = max_body_bytes
        self._clock = clock
        self._answering: asyncio.Task[None] | None = None
        self._done: set[str] = set()

    async def run(self) -> None:
        """Until the batch is over. Raises `Interrupted`; then a job of the same record goes on."""
        if self.batch.status == "validating":
            await self._check()
        if not self.batch.is_open:
            return
        await asyncio.to_thread(self._take_up)
        output = self._files.reopen(self.record.tenant, self.record.output_id)
        errors = self._files.reopen(self.record.tenant, self.record.error_id)
        results = Results(self.batch, output, errors)
        try:
            is_cancelled = self.batch.status == "cancelling"
            ending = "cancelled" if is_cancelled else await self._answer(results)
            await self._end(ending, results)
        finally:
            results.close()

    async def cancel(self) -> None:
        """What runs is dropped; what is done is kept."""
        self.batch.status = "cancelling"
        self.batch.cancelling_at = self._now()
        await self._batches.save(self.record)
        if self._answering is not None:
            self._answering.cancel()

    async def fail(self, errors: list[BatchError]) -> None:
        """Without results."""
        self.batch.errors = BatchErrors(data=errors)
        await self._close("failed")

    async def _check(self) -> None:
        num_lines, errors = await asyncio.to_thread(
            check_input, self._input_path, self.batch.endpoint, self._max_body_bytes
        )
        self.batch.request_counts.total = num_lines
        if self.batch.status != "validating":
            return  # cancelled meanwhile
        if errors:
            await self.fail(errors)
            return
        self.batch.status, self.batch.in_progress_at = "in_progress", self._now()
        await self._batches.save(self.record)

    def _take_up(self) -> None:
        """Learn what an earlier server did, and cut off what it did not finish to write."""
        counts = self.batch.request_counts
        counts.completed = counts.failed = 0
        self.batch.usage = BatchUsage()
        for file_id in (self.record.output_id, self.record.error_id):
            path, end = self._files.path(file_id), 0
            for record, end in read_records(path):  # noqa: B007  (the last one is wanted)
                count_record(self.batch, record)
                if record.custom_id is not None:
                    self._done.add(record.custom_id)
            if path.exists():
                os.truncate(path, end)

    async def _answer(self, results: Results) -> Ending:
        """Until all is done, the batch is cancelled, its window ends or the store is full."""
        self._answering = asyncio.create_task(self._answer_lines(results))
        seconds = max(0.0, self.batch.expires_at - self._clock())
        try:
            await asyncio.wait_for(self._answering, seconds)
        except TimeoutError:
            return "expired"
        except asyncio.CancelledError:
            if self.batch.status != "cancelling":
                raise
            return "cancelled"
        except (RequestTooLarge, OSError) as error:
            logger.warning("batch %s cannot write its results: %s", self.batch.id, error)
            problem = BatchError(code="storage_full", message="the results cannot be stored")
            self.batch.errors = BatchErrors(data=[problem])
            return "failed"
        finally:
            self._answering = None
        return "completed"

    async def _answer_lines(self, results: Results) -> None:
        async def work(line: RequestLine, entry: Entry) -> None:
            results.add(await self._answerer.answer(line, self.record.tenant, entry))
            self._done.add(line.custom_id)

        await one_by_one(self._lines_left(), work)

    def _lines_left(self) -> Iterator[RequestLine]:
        with self._input_path.open("rb") as file:
            for _, content in read_lines(file, self._max_body_bytes):
                if isinstance(content, RequestLine) and content.custom_id not in self._done:
                    yield content

    async def _end(self, ending: Ending, results: Results) -> None:
        batch = self.batch
        if ending == "completed":
            batch.status, batch.finalizing_at = "finalizing", self._now()
            await self._batches.save(self.record)
        if ending in ("expired", "cancelled"):
            await self._give_up(EXPIRED if ending == "expired" else CANCELLED, results)
        batch.output_file_id = await self._publish(results.output, "output")
        batch.error_file_id = await self._publish(results.errors, "error")
        await self._close(ending)

    async def _close(self, ending: Ending) -> None:
        """Nobody is told of an end that the next server would not know of: disk first."""
        status, now = self.batch.status, self._now()
        end = {"status": ending, f"{ending}_at": now}
        closed = msgspec.structs.replace(self.batch, **end)
        await self._batches.save(msgspec.structs.replace(self.record, batch=closed))
        was_cancelled = self.batch.status != status  # meanwhile, and too late
        if self.batch.is_open:
            self._files.release(self.batch.input_file_id)
        for name, value in end.items():
            setattr(self.batch, name, value)
        if was_cancelled:
            await self._batches.save(self.record)

    async def _give_up(self, reason: LineError, results: Results) -> None:
        """A record for each line that has none, as far as there is room for them."""
        for number, line in enumerate(self._lines_left()):
            try:
                results.add(LineRecord(custom_id=line.custom_id, error=reason))
            except (RequestTooLarge, OSError):
                return
            if number % 256 == 0:
                await asyncio.sleep(0)  # others are served in between

    async def _publish(self, file: OpenFile, what: str) -> str | None:
        """The file's id, or None if there is nothing in it."""
        if not file.num_bytes:
            file.discard()
            return None
        stored = await self._files.publish(
            file,
            filename=f"{self.batch.id}_{what}.jsonl",
            purpose="batch_output",
            expires_seconds=self.record.output_expires_seconds,
        )
        return stored.id

    @property
    def _input_path(self) -> Path:
        return self._files.path(self.batch.input_file_id)

    def _now(self) -> int:
        return int(self._clock())


class Results:
    """The two files that a batch writes, and its counts."""

    def __init__(self, batch: Batch, output: OpenFile, errors: OpenFile) -> None:
        self._batch = batch
        self.output = output
        self.errors = errors

    def add(self, record: LineRecord) -> None:
        """Raises `RequestTooLarge` or OSError if it cannot be stored."""
        file = self.output if record.is_ok else self.errors
        data = msgspec.json.encode(record) + b"\n"
        file.reserve(len(data))
        file.write(data)
        count_record(self._batch, record)

    def close(self) -> None:
        self.output.close()
        self.errors.close()


def count_record(batch: Batch, record: LineRecord) -> None:
    counts = batch.request_counts
    if record.is_ok:
        assert record.response is not None
        counts.completed += 1
        add_usage(batch.usage, record.response.body)
    else:
        counts.failed += 1
