"""What this machine offers: cores and memory that this process may use. Reads /proc and /sys."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")
CPUS = Path("/sys/devices/system/cpu")


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """`num_cores` counts physical cores that we may run on. `memory_bytes` is all memory, used or
    not: what is free now would change from start to start, and decisions with it."""

    num_cores: int
    memory_bytes: int


def this_machine() -> Machine:
    cores = _physical_cores(os.sched_getaffinity(0), CPUS)
    quota = _quota_cores(CGROUP)
    return Machine(
        num_cores=cores if quota is None else max(1, min(cores, quota)),
        memory_bytes=_memory_bytes(CGROUP, Path("/proc/meminfo")),
    )


def _physical_cores(allowed: set[int], folder: Path) -> int:
    """Cores under the allowed processors: two hyperthreads share one core's vector units."""
    cores = set()
    for cpu in allowed:
        siblings = _read(folder / f"cpu{cpu}" / "topology" / "thread_siblings_list")
        cores.add(siblings or str(cpu))
    return max(1, len(cores))


def _quota_cores(folder: Path) -> int | None:
    """Whole cores of a container's CPU quota; None without one."""
    words = _read(folder / "cpu.max").split()
    if len(words) != 2 or words[0] == "max":
        return None
    return int(words[0]) // int(words[1])


def _memory_bytes(folder: Path, meminfo: Path) -> int:
    installed = _installed_bytes(meminfo)
    limit = _read(folder / "memory.max")
    return min(installed, int(limit)) if limit.isdigit() else installed


def _installed_bytes(meminfo: Path) -> int:
    for line in _read(meminfo).splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) << 10
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
