"""The official clients against a real server on a real model: what they send is understood, and
what they get they can parse."""

from __future__ import annotations

import io
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import openai
import pytest

PROGRAM = """
import sys
from octavo.config.engine import EngineConfig
from octavo.config.server import ServerConfig
from octavo.entrypoints.openai.serve import run_server

config = EngineConfig(model=sys.argv[1], max_model_len=1024, max_num_seqs=4)
options = ServerConfig(port=0, served_model_name=("m",), batch_dir=sys.argv[2], api_key=("key",))
sys.exit(run_server(config, options))
"""
PATIENCE_SECONDS = 60


@pytest.fixture(scope="module")
def url(smollm2_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One server for all tests of this module."""
    folder = tmp_path_factory.mktemp("batches")
    command = [sys.executable, "-c", PROGRAM, str(smollm2_path), str(folder)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            match = re.search(r"serves m at (http://127\.0\.0\.1:\d+)/v1 ", line)
            assert match, line
            yield match[1]
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE_SECONDS) == 0
        finally:
            process.kill()


@pytest.fixture(scope="module")
def client(url: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(
        base_url=f"{url}/v1", api_key="key", max_retries=0, timeout=PATIENCE_SECONDS
    ) as client:
        yield client


def test_openai_runs_a_batch(client: openai.OpenAI) -> None:
    lines = [
        {
            "custom_id": f"q{number}",
            "method": "POST",
            "url": "/v1/chat/completions",
            "body": {
                "model": "m",
                "messages": [{"role": "user", "content": f"Say {number}"}],
                "max_tokens": 4,
            },
        }
        for number in range(9)
    ]
    data = "\n".join(map(json.dumps, lines)).encode()
    file = client.files.create(file=("in.jsonl", io.BytesIO(data)), purpose="batch")
    batch = client.batches.create(
        input_file_id=file.id,
        endpoint="/v1/chat/completions",
        completion_window="24h",
        metadata={"for": "test"},
    )
    deadline = time.monotonic() + PATIENCE_SECONDS
    while batch.status not in ("completed", "failed", "expired", "cancelled"):
        assert time.monotonic() < deadline
        time.sleep(0.02)
        batch = client.batches.retrieve(batch.id)
    assert batch.status == "completed"
    assert batch.request_counts is not None
    assert batch.request_counts.completed == 9
    assert batch.usage is not None
    assert batch.usage.output_tokens > 0
    assert batch.output_file_id is not None
    records = [json.loads(x) for x in client.files.content(batch.output_file_id).text.splitlines()]
    assert {one["custom_id"] for one in records} == {f"q{number}" for number in range(9)}
    assert [one.id for one in client.batches.list(limit=1)] == [batch.id]
    assert {one.purpose for one in client.files.list(limit=1)} == {"batch", "batch_output"}
    assert client.files.retrieve(file.id) == file
    assert client.files.delete(file.id).deleted
    with pytest.raises(openai.BadRequestError, match="completed"):
        client.batches.cancel(batch.id)
