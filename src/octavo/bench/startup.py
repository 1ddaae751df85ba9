"""How long `octavo serve` takes from the start of its process to readiness, and how much memory.

Readiness is the line in which it says so; the phases are that line's. Reads /proc.
"""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from octavo.config.environment import child_environment
from octavo.errors import OctavoError

READY = re.compile(r" serves .* at \S+ \(seconds: ([^)]*)\)")
STOP_SECONDS = 10.0

IDLE_SECONDS = 1.0
"""After readiness the memory of an idle server is read: both processes give back what starting took
just after they have said that they are ready."""


class StartupError(OctavoError):
    """The server did not come up."""


@dataclass(frozen=True, slots=True)
class Startup:
    """`wall_seconds` is from before the process is made to its line. `phases` are in seconds and
    overlap. Resident memory is of the server's processes together, at most and when idle; `rss`
    counts a page in each process that has it, `idle_together_bytes` once."""

    wall_seconds: float
    phases: dict[str, float]
    peak_rss_bytes: int
    idle_rss_bytes: int
    idle_together_bytes: int


@contextmanager
def compiled_code() -> Iterator[dict[str, str]]:
    """The environment of servers that find their modules compiled, as those of an installed package
    are, once one of them has started. Where Python is told to leave no such files, they lie in a
    folder that is gone afterwards: to compile takes half as long as all else that starting does.
    """
    if not sys.dont_write_bytecode:
        yield child_environment()
        return
    with TemporaryDirectory(prefix="octavo-compiled-") as folder:
        yield child_environment(PYTHONDONTWRITEBYTECODE="", PYTHONPYCACHEPREFIX=folder)


def measure_startup(
    arguments: Sequence[str], timeout_seconds: float, environment: Mapping[str, str]
) -> Startup:
    """Run `octavo serve ARGUMENTS` until it is ready, then end it. Raises StartupError."""
    command = [sys.executable, "-m", "octavo", "serve", *arguments, "--host", "127.0.0.1"]
    start = time.perf_counter()
    with subprocess.Popen(
        [*command, "--port", "0"], stderr=subprocess.PIPE, env=environment
    ) as process:
        try:
            phases = _await_ready(process, start + timeout_seconds)
            wall_seconds = time.perf_counter() - start
            time.sleep(IDLE_SECONDS)
            family = [process.pid, *children(process.pid)]
            peak = sum(status_bytes(pid, "VmHWM") for pid in family)
            idle = sum(status_bytes(pid, "VmRSS") for pid in family)
            together = together_bytes(family)
        finally:
            _stop(process)
    return Startup(wall_seconds, phases, peak, idle, together)


def parse_ready(line: str) -> dict[str, float] | None:
    """Seconds by phase from the line of a server that is ready; None for another line."""
    match = READY.search(line)
    if match is None:
        return None
    parts = (part.rpartition(" ") for part in match[1].split(", "))
    return {name: float(seconds) for name, _, seconds in parts}


def drop_from_page_cache(path: Path) -> None:
    """Let the system forget a file's contents, so that the next start reads it from disk."""
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def children(pid: int) -> list[int]:
    """Process ids of the children of all its threads, and of theirs."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, _read(task).split()):
            found += [child, *children(child)]
    return found


def status_bytes(pid: int, field: str) -> int:
    """A size in /proc/PID/status; 0 for a process that is gone."""
    for line in _read(Path(f"/proc/{pid}/status")).splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) << 10
    return 0


def together_bytes(pids: Sequence[int]) -> int:
    """Resident memory of processes that were not forked from each other, with pages of files that
    several of them have counted once: of each part of a file the most that one of them has.

    The system's own proportional size would count less the more other programs share a library.
    """
    private, shared = 0, Counter[tuple[str, ...]]()
    for pid in pids:
        own = Counter[tuple[str, ...]]()
        part: tuple[str, ...] = ()
        for line in _read(Path(f"/proc/{pid}/smaps")).splitlines():
            words = line.split()
            if not words[0].endswith(":"):
                part = (*words[1:3], *words[4:])  # rights, offset, inode and path
            elif words[0].startswith("Private_") and words[-1] == "kB":
                private += int(words[1]) << 10
            elif words[0].startswith("Shared_"):
                own[part] += int(words[1]) << 10
        shared |= own
    return private + shared.total()


def _await_ready(process: subprocess.Popen[bytes], deadline: float) -> dict[str, float]:
    """Reads the raw pipe: a buffered reader would hide from `select` what it holds."""
    assert process.stderr is not None
    descriptor = process.stderr.fileno()
    said = b""
    while (rest := deadline - time.perf_counter()) > 0:
        if not select.select([descriptor], [], [], rest)[0]:
            break
        piece = os.read(descriptor, 1 << 16)
        said += piece
        for line in said.decode("utf-8", "replace").splitlines():
            phases = parse_ready(line)
            if phases is not None:
                return phases
        if not piece:
            break
    text = " ".join(said.decode("utf-8", "replace").split()) or "it said nothing"
    raise StartupError(f"octavo serve was not ready: {text[-500:]}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
