"""Reading what a starting server says, and who belongs to it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from octavo.bench.startup import (
    StartupError,
    children,
    measure_startup,
    parse_ready,
    proportional_bytes,
    status_bytes,
)


def test_the_ready_line_gives_the_phases() -> None:
    line = (
        "octavo 0.1.0 serves m at http://127.0.0.1:81/v1 (seconds: load 0.25, front 0.5, total 1)"
    )
    assert parse_ready(line) == {"load": 0.25, "front": 0.5, "total": 1.0}


@pytest.mark.parametrize("line", ["", "warning: open to the network", "serves (seconds: 1)"])
def test_other_lines_are_not_ready(line: str) -> None:
    assert parse_ready(line) is None


def test_a_server_that_cannot_start_says_why() -> None:
    with pytest.raises(StartupError, match=r"no-such-model\.gguf"):
        measure_startup(["/no-such-model.gguf"], timeout_seconds=30)


def test_resident_memory_is_read() -> None:
    assert 1 << 20 < status_bytes(os.getpid(), "VmRSS") <= status_bytes(os.getpid(), "VmHWM")
    assert 1 << 20 < proportional_bytes(os.getpid()) <= 1.1 * status_bytes(os.getpid(), "VmRSS")
    assert status_bytes(2**22 + 1, "VmRSS") == proportional_bytes(2**22 + 1) == 0


def test_children_of_children_are_found() -> None:
    script = (
        "import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', 'input()'],"
        " stdin=subprocess.PIPE); print(p.pid, flush=True); input(); p.communicate(b'\\n')"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        grandchild = int(process.stdout.readline())
        assert {process.pid, grandchild} <= set(children(os.getpid()))
        process.communicate("\n")
