"""Cached prefixes across restarts: taken in at start-up, saved at an orderly end.

Knows page memory, page manager and file. A cache is never worth an error: what cannot be read or
written is left, with one line in the log.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from octavo.engine.prefix_file import (
    PageFormat,
    UnusableFile,
    read_prefix_file,
    write_prefix_file,
)
from octavo.kv.kv_manager import KvManager

logger = logging.getLogger(__name__)

U8 = npt.NDArray[np.uint8]


class PageBytes(Protocol):
    """The part of `runner.page_memory.PageMemory` that is needed."""

    @property
    def page_bytes(self) -> int: ...

    @property
    def identity(self) -> bytes: ...

    def read(self, page: int) -> U8: ...

    def write(self, page: int, content: U8) -> None: ...


class PrefixStore:
    """One file, of at most `max_bytes`. The engine's thread uses it, between steps."""

    def __init__(self, path: Path, max_bytes: int, kv: KvManager, pages: PageBytes) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._kv = kv
        self._pages = pages
        self._format = PageFormat(kv.page_tokens, kv.groups.num, pages.page_bytes, pages.identity)

    def load(self) -> int:
        """Take in what was saved, as far as blank pages last. Returns the number of pages."""
        try:
            records, contents, num_bad = read_prefix_file(self._path, self._format)
        except FileNotFoundError:
            return 0
        except (OSError, UnusableFile) as error:
            logger.warning("cached prefixes in %s are not used: %s", self._path, error)
            return 0
        pages = self._kv.take_in(records)
        for page, content in zip(pages, contents, strict=False):
            self._pages.write(page, content)
        logger.info(
            "took in %d pages of cached prefixes from %s; %d were damaged, %d found no room",
            *(len(pages), self._path, num_bad, len(records) - len(pages)),
        )
        return len(pages)

    def save(self) -> None:
        """Replace the file, unless nothing is cached."""
        saved = self._kv.pages_to_save(self._format.max_pages(self._max_bytes))
        if not saved:
            return
        contents = (self._pages.read(page) for page, _ in saved)
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_prefix_file(self._path, self._format, [record for _, record in saved], contents)
        except OSError as error:
            logger.warning("cached prefixes were not saved to %s: %s", self._path, error)

    def discard(self) -> None:
        """Remove the file: whoever resets the cache wants nothing of it back."""
        try:
            self._path.unlink(missing_ok=True)
        except OSError as error:
            logger.warning("cached prefixes in %s were not removed: %s", self._path, error)
