"""Reading what a starting server says, and who belongs to it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from octavo.bench.startup import (
    StartupError,
    children,
    compiled_code,
    measure_startup,
    parse_ready,
    status_bytes,
    together_bytes,
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
        measure_startup(["/no-such-model.gguf"], timeout_seconds=30, environment=os.environ)


@pytest.mark.parametrize("leaves_none", [False, True])
def test_servers_find_their_modules_compiled_and_nothing_is_left_where_nothing_may_be(
    leaves_none: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", leaves_none)
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    with compiled_code() as environment:
        if not leaves_none:
            assert environment == dict(os.environ)
            return
        folder = Path(environment["PYTHONPYCACHEPREFIX"])
        subprocess.run([sys.executable, "-c", "import octavo.errors"], env=environment, check=True)
        assert [path.name.split(".")[0] for path in folder.rglob("octavo/errors*.pyc")] == [
            "errors"
        ]
    assert not folder.exists()


def test_resident_memory_is_read() -> None:
    assert 1 << 20 < status_bytes(os.getpid(), "VmRSS") <= status_bytes(os.getpid(), "VmHWM")
    assert status_bytes(2**22 + 1, "VmRSS") == 0


def test_memory_of_several_processes_counts_what_they_share_once() -> None:
    script = "x = bytearray(32 << 20); print(flush=True); input()"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    twins = [subprocess.Popen([sys.executable, "-c", script], **pipes) for _ in range(2)]  # type: ignore[call-overload]
    try:
        for twin in twins:
            twin.stdout.readline()
        pids = [twin.pid for twin in twins]
        total = sum(status_bytes(pid, "VmRSS") for pid in pids)
        one, together = together_bytes(pids[:1]), together_bytes(pids)
        assert one == pytest.approx(total / 2, rel=0.02)
        assert one + (32 << 20) < together < total - (1 << 20)
        assert together_bytes([2**22 + 1]) == 0
    finally:
        for twin in twins:
            twin.communicate(b"\n")


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
