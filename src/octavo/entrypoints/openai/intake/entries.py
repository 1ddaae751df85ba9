"""Work that nobody waits for: begun one piece at a time, each when the one before was let in.

So a file of any length takes the memory of what is being answered, and one line more. Knows no
HTTP, no engine and no file.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

Piece = TypeVar("Piece")


class Interrupted(Exception):
    """The server stops. What was not finished must be done again by the next one."""


class Entry:
    """Is over when its piece was let in, or has ended without."""

    def __init__(self) -> None:
        self._is_over = asyncio.Event()

    def end(self) -> None:
        """Idempotent."""
        self._is_over.set()

    async def wait(self) -> None:
        await self._is_over.wait()


async def one_by_one(
    pieces: Iterable[Piece], work: Callable[[Piece, Entry], Awaitable[None]]
) -> None:
    """Begin `work` on each piece when the turn of the one before is over; return when all is done.

    Raises `Interrupted` after what was begun has ended, if any piece did; another exception ends
    all of it.
    """
    is_interrupted = False

    async def one(piece: Piece, entry: Entry) -> None:
        nonlocal is_interrupted
        try:
            await work(piece, entry)
        except Interrupted:
            is_interrupted = True
        finally:
            entry.end()

    try:
        async with asyncio.TaskGroup() as tasks:
            for piece in pieces:
                entry = Entry()
                tasks.create_task(one(piece, entry))
                await entry.wait()
                if is_interrupted:
                    break
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    if is_interrupted:
        raise Interrupted
