"""`run_server` as a process of its own on a real model: ready, answering, surviving its engine."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

PROGRAM = """
import sys
from octavo.config.engine import EngineConfig
from octavo.config.server import ServerConfig
from octavo.entrypoints.openai.serve import run_server

config = EngineConfig(model=sys.argv[1], max_model_len=512, max_num_seqs=4)
sys.exit(run_server(config, ServerConfig(port=0, served_model_name=("m",))))
"""
PATIENCE_SECONDS = 60


@pytest.fixture
def server(smollm2_path: Path) -> Iterator[tuple[subprocess.Popen[str], httpx.Client]]:
    """A process that is ready, and a client of it."""
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(smollm2_path)], stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            match = re.search(r"serves m at (http://127\.0\.0\.1:\d+)/v1 \(seconds: .*total", line)
            assert match, line
            with httpx.Client(base_url=match[1], timeout=PATIENCE_SECONDS) as http:
                yield process, http
        finally:
            process.kill()


def _complete(http: httpx.Client, **fields: object) -> httpx.Response:
    body = {"prompt": "The capital of France is", "max_tokens": 4, "temperature": 0, **fields}
    return http.post("/v1/completions", json=body)


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _engine_pid(process: subprocess.Popen[str]) -> int:
    (pid,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return int(pid)


def _check_crowd(http: httpx.Client) -> None:
    """L10: the same greedy text one by one and all at once."""

    def text(prompt: str) -> str:
        return str(_complete(http, prompt=prompt, max_tokens=8).json()["choices"][0]["text"])

    prompts = [f"In the year {1900 + i}, {'it was said that ' * (i % 3)}the" for i in range(10)]
    alone = [text(prompt) for prompt in prompts]
    with ThreadPoolExecutor(len(prompts)) as crowd:
        assert list(crowd.map(text, prompts)) == alone


def test_it_answers_survives_a_killed_engine_and_ends_with_status_0(
    server: tuple[subprocess.Popen[str], httpx.Client],
) -> None:
    process, http = server
    first = _complete(http)
    assert "Paris" in first.json()["choices"][0]["text"]
    _check_crowd(http)

    engine_pid = _engine_pid(process)
    os.kill(engine_pid, signal.SIGKILL)
    _until(lambda: http.get("/health").status_code == 503)
    assert _complete(http).status_code == 503
    _until(lambda: http.get("/health").status_code == 200)
    assert _engine_pid(process) != engine_pid
    assert _complete(http).json()["choices"] == first.json()["choices"]

    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_SECONDS) == 0
    assert process.stderr is not None
    died, restarted, stopping = process.stderr.read().splitlines()
    assert re.fullmatch(r"\d{4}-\S+ \S+ ERROR the engine's process ended with status -9", died)
    assert re.search(r" INFO the engine runs again, as process \d+$", restarted)
    assert " INFO stopping: 0 open requests" in stopping


def test_a_bad_model_is_one_line_and_no_traceback(tmp_path: Path) -> None:
    """L8."""
    model = tmp_path / "model.gguf"
    model.write_bytes(b"GGUF\x03\0\0\0" + b"\xff" * 100)
    program = PROGRAM.replace("sys.exit(run", "from octavo.errors import WeightError\nsys.exit(run")
    result = subprocess.run(
        [sys.executable, "-c", program, str(model)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert result.returncode != 0
    last_line = result.stderr.strip().splitlines()[-1]
    assert last_line.startswith("octavo.errors.WeightError: ")
    assert str(model) in last_line
