"""Where swapped pages lie: slots of one page each, in host memory or in a file that has no name.

Owns that memory. Must not know which slot holds whose page.
"""

from __future__ import annotations

import mmap
import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
import numpy.typing as npt

from octavo.errors import ConfigError

U8 = npt.NDArray[np.uint8]


class SwapBuffer:
    """`num_slots` slots. Memory is taken from the system when a slot is first written; in
    `directory`, the whole file is reserved at once, so that a full disk is known at the start.

    Raises `ConfigError` if there is no such room.
    """

    def __init__(self, num_slots: int, page_bytes: int, directory: Path | None = None) -> None:
        num_bytes = num_slots * page_bytes
        self.num_slots = num_slots
        memory = _host_memory(num_bytes) if directory is None else _file(directory, num_bytes)
        self._slots: U8 = memory.reshape(num_slots, page_bytes)

    def slot(self, index: int) -> U8:
        """Its bytes, to read and to write."""
        slot: U8 = self._slots[index]
        return slot


def _host_memory(num_bytes: int) -> U8:
    try:
        return np.empty(num_bytes, np.uint8)
    except MemoryError as error:
        raise ConfigError(
            f"--swap-space is {num_bytes} bytes; this machine cannot provide so much memory"
        ) from error


def _file(directory: Path, num_bytes: int) -> U8:
    """Only its owner may open it, and only while it has a name, which ends as it is made."""
    if num_bytes == 0:
        return np.empty(0, np.uint8)
    try:
        free_bytes = shutil.disk_usage(directory).free
        if free_bytes < num_bytes:
            raise ConfigError(
                f"--swap-space is {num_bytes} bytes; --swap-dir {directory} has {free_bytes} left"
            )
        with tempfile.TemporaryFile(dir=directory) as file:
            os.posix_fallocate(file.fileno(), 0, num_bytes)
            return np.frombuffer(mmap.mmap(file.fileno(), num_bytes), np.uint8)
    except OSError as error:
        raise ConfigError(f"--swap-dir {directory} cannot be used: {error}") from error
