"""Real servers in processes of their own, for tests of what clients on the network see.

Knows how a server is started and ended, but not what is asked of it.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

PROGRAM = """
import sys
from octavo.config.engine import EngineConfig
from octavo.config.server import ServerConfig
from octavo.entrypoints.openai.serve import run_server

config = EngineConfig(model=sys.argv[1], max_model_len=2048, max_num_seqs=8)
options = ServerConfig(port=0, served_model_name=("m",), batch_dir=sys.argv[2], api_key=("key",))
sys.exit(run_server(config, options))
"""
PATIENCE_SECONDS = 60


class RealServers:
    """One server per model, started when first asked for; all serve "m" to those with "key"."""

    def __init__(self, ends: ExitStack, folder: Path) -> None:
        self._ends = ends
        self._folder = folder
        self._urls: dict[Path, str] = {}

    def url(self, model: Path) -> str:
        """Where the server of this GGUF file listens, without the /v1."""
        if model not in self._urls:
            batch_dir = self._folder / model.stem
            batch_dir.mkdir(exist_ok=True)
            serving = _serving(model, batch_dir)
            self._urls[model] = self._ends.enter_context(serving)
        return self._urls[model]


@contextmanager
def _serving(model: Path, batch_dir: Path) -> Iterator[str]:
    command = [sys.executable, "-c", PROGRAM, str(model), str(batch_dir)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            match = re.search(r"serves m at (http://127\.0\.0\.1:\d+)/v1 ", line)
            assert match, line + process.stderr.read()
            yield match[1]
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE_SECONDS) == 0
        finally:
            process.kill()
