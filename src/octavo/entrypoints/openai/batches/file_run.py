"""A file of requests in, a file of records out: a batch without a store. In vLLM's line format.

Knows no HTTP and prints nothing. Memory does not grow with the length of the input but by eight
bytes for each line that an earlier run has answered.
"""

from __future__ import annotations

import bisect
import os
from array import array
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO

import msgspec

from octavo.entrypoints.openai.batches.job import Answerer
from octavo.entrypoints.openai.batches.lines import (
    LineError,
    LineRecord,
    Numbered,
    read_lines,
    read_records,
)
from octavo.entrypoints.openai.intake.entries import Entry, one_by_one

OnRecord = Callable[[LineRecord], None]


class DoneLines:
    """Which custom ids were answered. Keeps 64-bit hashes: among a million ids two are taken for
    one with a probability of 1 in 37 million."""

    def __init__(self) -> None:
        self._hashes = array("Q")

    def __len__(self) -> int:
        return len(self._hashes)

    def add(self, custom_id: str) -> None:
        self._hashes.append(_hash(custom_id))

    def sort(self) -> None:
        """After the last `add`, before the first question."""
        self._hashes = array("Q", sorted(self._hashes))

    def __contains__(self, custom_id: str) -> bool:
        wanted = _hash(custom_id)
        place = bisect.bisect_left(self._hashes, wanted)
        return place < len(self._hashes) and self._hashes[place] == wanted


def _hash(custom_id: str) -> int:
    return int.from_bytes(blake2b(custom_id.encode(), digest_size=8).digest(), "little")


def keep_answers(output: Path) -> DoneLines:
    """Strikes what an earlier run did not answer from its output, and says what it did answer."""
    done = DoneLines()
    if not output.exists():
        return done
    draft = output.with_name(f"{output.name}.tmp")
    with draft.open("wb") as file:
        for record, _ in read_records(output):
            if record.is_ok and record.custom_id is not None:
                file.write(msgspec.json.encode(record) + b"\n")
                done.add(record.custom_id)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(output)
    done.sort()
    return done


async def answer_file(
    source: BinaryIO,
    out: BinaryIO,
    answerer: Answerer,
    max_body_bytes: int,
    done: DoneLines,
    on_record: OnRecord,
) -> None:
    """Answer each line that is not `done`, and write its record as soon as it is there."""

    def write(record: LineRecord) -> None:
        out.write(msgspec.json.encode(record) + b"\n")
        out.flush()
        on_record(record)

    async def work(line: Numbered, entry: Entry) -> None:
        if not isinstance(line.content, Exception):
            write(await answerer.answer(line.content, "", entry))
            return
        message = f"line {line.number}: {line.content.message}"
        write(
            LineRecord(
                custom_id=None,
                error=LineError(code=line.content.code or "invalid_line", message=message),
            )
        )

    lines = read_lines(source, max_body_bytes)
    left = (
        line
        for line in lines
        if isinstance(line.content, Exception) or line.content.custom_id not in done
    )
    await one_by_one(left, work)
