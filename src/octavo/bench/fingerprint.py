"""What must be equal for two figures to be comparable: processor, instruction sets, versions."""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path

import msgspec

from octavo import __version__
from octavo.config.machine import this_machine
from octavo.kernels._native import isa_levels

SOURCE = Path(__file__).parent


class Fingerprint(msgspec.Struct, frozen=True, kw_only=True):
    """`commit` is empty outside a working copy, and ends in "-dirty" in a changed one."""

    processor: str
    num_cores: int
    memory_bytes: int
    isa_level: str
    threads: int
    system: str
    python: str
    octavo: str
    commit: str


def fingerprint(threads: int, isa_level: str = "") -> Fingerprint:
    """Of this machine. `isa_level` defaults to the fastest."""
    machine = this_machine()
    return Fingerprint(
        processor=_processor(Path("/proc/cpuinfo")),
        num_cores=machine.num_cores,
        memory_bytes=machine.memory_bytes,
        isa_level=isa_level or isa_levels()[0],
        threads=threads,
        system=platform.platform(),
        python=platform.python_version(),
        octavo=__version__,
        commit=commit_of(SOURCE),
    )


def commit_of(folder: Path) -> str:
    """The short name of the commit that git has checked out there; empty if it can tell none."""
    command = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--exclude=*"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _processor(cpuinfo: Path) -> str:
    """The model's name and numbers: hypervisors cut the name short."""
    wanted = ("model name", "cpu family", "model", "stepping")
    found: dict[str, str] = {}
    try:
        for line in cpuinfo.read_text().splitlines():
            key, _, value = line.partition(":")
            if key.strip() in wanted:
                found.setdefault(key.strip(), value.strip())
    except OSError:
        return platform.processor()
    numbers = "/".join(found.get(key, "?") for key in wanted[1:])
    return f"{found.get('model name', platform.machine())} (family/model/stepping {numbers})"
