"""`octavo run-batch`: each line answered once, bad ones told, and an interrupted run goes on."""

from __future__ import annotations

import asyncio
import io
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from octavo.entrypoints.cli.main import run_command
from octavo.entrypoints.openai.batches.file_run import answer_file, keep_answers
from octavo.entrypoints.openai.batches.lines import LineRecord, LineResponse, RequestLine
from octavo.entrypoints.openai.intake.entries import Entry

SMALL = ["--max-model-len", "512", "--max-num-seqs", "4", "--kv-cache-memory", "64M"]
MAX_BODY_BYTES = 1000
Json = Any


def line(custom_id: str, **fields: Json) -> bytes:
    body = {"prompt": "The capital of France is", "max_tokens": 4, "temperature": 0, **fields}
    record = {"custom_id": custom_id, "method": "POST", "url": "/v1/completions", "body": body}
    return json.dumps(record).encode() + b"\n"


class Scripted:
    """Answers with 200, or with what is named for a custom id. At most `num_slots` at once."""

    def __init__(self, statuses: dict[str, int] | None = None, num_slots: int = 4) -> None:
        self.asked: list[str] = []
        self.most_open = 0
        self._statuses = statuses or {}
        self._slots = asyncio.Semaphore(num_slots)
        self._num_open = 0

    async def answer(self, line: RequestLine, tenant: str, entry: Entry) -> LineRecord:  # noqa: ARG002
        self._num_open += 1
        self.most_open = max(self.most_open, self._num_open)
        async with self._slots:
            entry.end()
            self.asked.append(line.custom_id)
            await asyncio.sleep(0.001)
        self._num_open -= 1
        status = self._statuses.get(line.custom_id, 200)
        response = LineResponse(status_code=status, request_id="r", body=msgspec.Raw(b"{}"))
        return LineRecord(custom_id=line.custom_id, response=response)


def answered(source: bytes, output: Path, answerer: Scripted) -> list[Json]:
    """All records of the output after one more run."""
    done = keep_answers(output)
    told: list[LineRecord] = []
    with output.open("ab") as out:
        asyncio.run(
            answer_file(io.BytesIO(source), out, answerer, MAX_BODY_BYTES, done, told.append)
        )
    return [json.loads(text) for text in output.read_text().splitlines()]


def test_a_long_file_is_held_in_memory_line_by_line(tmp_path: Path) -> None:
    source = b"".join(line(f"id-{number}") for number in range(300))
    answerer = Scripted()
    records = answered(source, tmp_path / "out", answerer)
    assert sorted(one["custom_id"] for one in records) == sorted(answerer.asked)
    assert len(set(answerer.asked)) == 300
    assert answerer.most_open == 5


def test_what_was_answered_is_kept_and_the_rest_is_asked_again(tmp_path: Path) -> None:
    source = b"".join(line(f"id-{number}") for number in range(10))
    output = tmp_path / "out"
    first = answered(source[: source.index(b"id-6")], output, Scripted({"id-2": 500}))
    assert len(first) == 7  # six lines, and half of one
    with output.open("ab") as file:
        file.write(b'{"id": "half a li')
    again = Scripted()
    records = answered(source, output, again)
    assert again.asked == ["id-2", "id-6", "id-7", "id-8", "id-9"]
    assert sorted(one["custom_id"] for one in records) == [f"id-{number}" for number in range(10)]
    assert {one["response"]["status_code"] for one in records} == {200}
    assert answered(source, output, Scripted()) == records


def test_bad_lines_are_told_and_the_others_go_on(tmp_path: Path) -> None:
    source = b"no json\n" + line("a") + b"\n" + line("b", prompt="x" * 10_000) + line("c")
    records = answered(source, tmp_path / "out", Scripted())
    assert [one["custom_id"] for one in records if one["error"] is None] == ["a", "c"]
    errors = [one["error"] for one in records if one["error"]]
    assert [one["code"] for one in errors] == ["invalid_line", "line_too_long"]
    assert [one["message"].partition(":")[0] for one in errors] == ["line 1", "line 4"]


def test_the_command_answers_with_a_real_model(
    capsys: pytest.CaptureFixture[str], smollm2_path: Path, tmp_path: Path
) -> None:
    assert smollm2_path.is_file()
    source, output = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    chat = {
        "custom_id": "chat",
        "method": "POST",
        "url": "/v1/chat/completions",
        "body": {"model": "smollm2", "messages": [{"role": "user", "content": "Hi"}],
                 "max_tokens": 3},
    }  # fmt: skip
    lines = [*(line(f"id-{n}") for n in range(6)), line("bad", n=0), json.dumps(chat).encode()]
    source.write_bytes(b"".join(lines))
    command = ["run-batch", "-i", str(source), "-o", str(output), "--model", "smollm2", *SMALL]
    assert run_command(command) == 1
    assert capsys.readouterr().err.endswith("8 lines, 1 failed\n")
    records = {one["custom_id"]: one for one in map(json.loads, output.read_text().splitlines())}
    assert len(records) == 8
    texts = {records[f"id-{n}"]["response"]["body"]["choices"][0]["text"] for n in range(6)}
    assert len(texts) == 1
    assert "Paris" in texts.pop()
    assert records["chat"]["response"]["body"]["object"] == "chat.completion"
    assert records["bad"]["response"]["status_code"] == 400
    assert records["bad"]["response"]["body"]["error"]["param"] == "n"
    assert run_command(command) == 2
    assert "--resume" in capsys.readouterr().err


def test_the_command_needs_its_input(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    command = ["run-batch", "-i", str(tmp_path / "none"), "-o", str(tmp_path / "out"), "--model"]
    assert run_command([*command, "smollm2"]) == 1
    assert "No such file" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
