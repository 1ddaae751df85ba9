"""A contender's process, in a group of its own that is stopped while others are measured.

An engine that waits may still spin; a stopped group costs no processor time. Knows no protocol.
A group whose idling was measured to cost nothing, and that watches its own heartbeat, is let be.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import octavo
from octavo.errors import OctavoError

PR_SET_PDEATHSIG = 1
STOP_SECONDS = 10.0
LOG_CHARS = 2000


class PeerError(OctavoError):
    """A contender did not start, died or refused."""


class PeerProcess:
    """Runs from its creation until the first `turn` ends, and then in turns only."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
        *,
        has_pipes: bool = False,
        is_stopped_when_idle: bool = True,
    ) -> None:
        self.name = name
        self._is_stopped_when_idle = is_stopped_when_idle
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 -- lives as long as the process
        pipe = subprocess.PIPE if has_pipes else subprocess.DEVNULL
        self.process = subprocess.Popen(
            list(command),
            stdin=pipe,
            stdout=pipe if has_pipes else self._log,
            stderr=self._log,
            env={**os.environ, **(environment or {})},
            start_new_session=True,
            preexec_fn=_die_with_parent,
        )

    @contextmanager
    def turn(self) -> Generator[None]:
        """Let the process run, and stop it again afterwards."""
        self._signal(signal.SIGCONT)
        try:
            yield
        finally:
            if self._is_stopped_when_idle:
                self._signal(signal.SIGSTOP)

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    @property
    def log(self) -> str:
        """The end of what it printed."""
        self._log.seek(0)
        return self._log.read().decode(errors="replace").strip()[-LOG_CHARS:]

    def close(self) -> None:
        """End the whole group, politely first."""
        self._signal(signal.SIGCONT)
        self._signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(STOP_SECONDS)
        self._signal(signal.SIGKILL)
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self._log):
            if stream is not None:
                stream.close()

    def _signal(self, number: signal.Signals) -> None:
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            return  # all of the group have ended


def python_environment(root: Path) -> dict[str, str]:
    """For a Python that is to find the benchmarks in `root`, and the octavo that runs here."""
    return {"PYTHONPATH": f"{Path(octavo.__file__).parents[1]}{os.pathsep}{root}"}


def _die_with_parent() -> None:
    """A killed driver must not leave stopped processes behind."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
