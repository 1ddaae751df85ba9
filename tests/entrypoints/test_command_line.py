"""The `octavo` command: output on stdout, one-line errors on stderr, meaningful exit codes."""

from __future__ import annotations

import io
import json
import re
import resource
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from octavo import __version__
from octavo.config.engine import EngineConfig
from octavo.config.options import options_of
from octavo.config.server import ServerConfig
from octavo.entrypoints.cli.main import COMMANDS, run_command

SMALL = ["--max-model-len", "512", "--max-num-seqs", "4", "--kv-cache-memory", "64M"]


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout, stderr."""
    try:
        code = run_command(arguments)
    except SystemExit as exited:
        code = int(exited.code or 0)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(capsys: pytest.CaptureFixture[str], command: str) -> None:
    code, out, _ = run(capsys, command, "--help")
    assert code == 0
    assert out.startswith(f"usage: octavo {command}")


def test_descriptions_keep_their_capitals(capsys: pytest.CaptureFixture[str]) -> None:
    assert "Serve a model over HTTP, as OpenAI's API." in run(capsys, "serve", "--help")[1]


@pytest.mark.parametrize(
    "command", ["run", "serve", "generate", "inspect config", "inspect program"]
)
def test_every_command_that_takes_options_shows_all_of_them(
    capsys: pytest.CaptureFixture[str], command: str
) -> None:
    _, out, _ = run(capsys, *command.split(), "--help")
    shown = [item.flag for item in options_of(EngineConfig) if item.name != "model"]
    if command == "serve":
        shown += [item.flag for item in options_of(ServerConfig)]
    for flag in [*shown, "--config", "--no-enable-prefix-caching"]:
        assert re.search(rf"{flag}\b", out), flag


def test_version_names_what_a_bug_report_needs(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "version")
    assert code == 0
    assert out.startswith(f"octavo {__version__}\n")
    assert "scalar" in out


def test_models_lists_the_catalogue(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "models")
    assert code == 0
    assert "smollm2" in out
    assert "gemma3-270m" in out


def test_pull_prints_the_path(capsys: pytest.CaptureFixture[str], smollm2_path: Path) -> None:
    assert run(capsys, "pull", "smollm2") == (0, f"{smollm2_path}\n", "")


def test_run_answers_a_prompt(capsys: pytest.CaptureFixture[str], smollm2_path: Path) -> None:
    assert smollm2_path.is_file()
    code, out, err = run(capsys, "run", "smollm2", "What is the capital of France?", *SMALL)
    assert code == 0
    assert "Paris" in out
    assert "tokens/s" in err


@pytest.mark.parametrize("flags", [["--seed", "1"], ["--no-enable-prefix-caching"]])
def test_a_prompt_may_stand_behind_flags(
    capsys: pytest.CaptureFixture[str], smollm2_path: Path, flags: list[str]
) -> None:
    tail = ["--max-tokens", "2", *SMALL]
    path = str(smollm2_path)
    code, out, _ = run(capsys, "run", path, *flags, "Say hello.", *tail)
    assert (code, out) == run(capsys, "run", path, "Say hello.", *flags, *tail)[:2]
    code, _, err = run(capsys, "run", path, "one", *flags, "two", *tail)
    assert code == 2
    assert "unrecognized arguments: two (" in err


def test_run_answers_what_is_piped_in(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, smollm2_path: Path
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("What is the capital of France?\n"))
    arguments = (
        str(smollm2_path),
        *SMALL,
        "--max-tokens",
        "16",
        "--system",
        "Answer in plain English.",
    )
    code, out, _ = run(capsys, "run", *arguments)
    assert code == 0
    assert "Paris" in out


def test_run_continues_text_with_a_base_model(
    capsys: pytest.CaptureFixture[str], gemma3_path: Path
) -> None:
    arguments = (str(gemma3_path), "The capital of France is", "--max-tokens", "4", *SMALL)
    code, out, _ = run(capsys, "run", *arguments)
    assert code == 0
    assert out == " the capital of the\n"
    code, _, err = run(capsys, "run", *arguments, "--system", "Be brief.")
    assert (code, err.count("\n")) == (2, 1)
    assert "chat template" in err


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        ([], 2, "COMMAND"),
        (["walk"], 2, "invalid choice"),
        (["run"], 2, "MODEL"),
        (["run", "smolm2", "hi"], 1, "did you mean smollm2"),
        (["run", "./absent.gguf", "hi"], 1, "no such file"),
        (["run", "m", "hi", "--max-num-seqs", "none"], 2, "--max-num-seqs is 'none'; an integer"),
        (["run", "m", "hi", "--dtype", "int3"], 2, "--dtype is 'int3'; one of auto, float32"),
        (["run", "m", "hi", "--temperature", "-1"], 2, "--temperature is '-1'; a number from 0.0"),
        (["run", "m", "hi", "--wisdom", "1"], 2, "unrecognized arguments: --wisdom 1"),
        (["run", "m", "hi", "--max-tokns", "1"], 2, "did you mean --max-tokens?"),
        (["run", "m", "hi", "--max-tokns=1"], 2, "did you mean --max-tokens?"),
        (["run", "m", "hi", "--max-tok", "1"], 2, "did you mean --max-tokens?"),
        (["inspect", "model", "m", "--tensor"], 2, "did you mean --tensors?"),
        (["run", "m", "hi", "--config", "absent.yaml"], 2, "absent.yaml"),
        (["serve"], 2, "no MODEL is given"),
        (["serve", "m", "--port", "70000"], 2, "--port is '70000'; an integer from 0 up to 65535"),
        (
            ["serve", "m", "--api-key="],
            2,
            "--api-key is not shown, for it is a secret; a list of texts",
        ),
        (["generate", "m", "-i", "absent.jsonl", "-o", "out"], 1, ": absent.jsonl: No such file"),
    ],
)
def test_a_wrong_call_is_told_in_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, says: str
) -> None:
    got, out, err = run(capsys, *arguments)
    assert got == code
    assert out == ""
    assert says in err
    assert err.startswith("octavo")
    assert err.count("\n") == 1


def gguf(*parts: bytes) -> bytes:
    return b"GGUF" + b"".join(parts)


BAD_FILES = {
    "empty": b"",
    "other": b"PK\x03\x04 this is no model",
    "cut": gguf(struct.pack("<IQ", 3, 1)),
    "huge count": gguf(struct.pack("<IQQ", 3, 2**62, 2**62)),
    "huge string": gguf(struct.pack("<IQQQ", 3, 0, 1, 2**63)),
    "no metadata": gguf(struct.pack("<IQQ", 3, 0, 0)),
}


@pytest.mark.parametrize("content", BAD_FILES.values(), ids=BAD_FILES)
def test_a_bad_file_is_one_line_with_its_name(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "bad.gguf"
    path.write_bytes(content)
    for command in (["run", str(path), "hi"], ["inspect", "config", str(path)]):
        code, out, err = run(capsys, *command)
        assert (code, out) == (1, "")
        assert err.startswith(f"octavo: error: {path}")
        assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("command", "rest"), [("run", ["hi"]), ("serve", ["--port", "0"]), ("inspect program", [])]
)
def test_a_cut_model_is_refused_within_two_seconds(
    command: str, rest: list[str], tmp_path: Path, smollm2_path: Path
) -> None:
    """L8. Seconds of processor time, so that a busy machine does not fail the test."""
    path = tmp_path / "cut.gguf"
    path.write_bytes(smollm2_path.read_bytes()[:3000])
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-m", "octavo", *command.split(), str(path), *rest],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 2.0
    assert done.returncode == 1
    assert done.stderr.startswith(f"octavo: error: {path}")
    assert done.stderr.count("\n") == 1


def test_a_template_that_cannot_be_used_is_told_at_the_start(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, smollm2_path: Path
) -> None:
    path = tmp_path / "template.gguf"
    content = smollm2_path.read_bytes()
    assert content.count(b"{% for message in messages %}") == 1
    path.write_bytes(content.replace(b"{% for message", b"{% fur message"))
    for command in (["run", str(path), "hi"], ["inspect", "config", str(path)]):
        code, out, err = run(capsys, *command)
        assert (code, out) == (1, "")
        assert err.startswith(f"octavo: error: {path}: tokenizer.chat_template: line 1")
        assert err.count("\n") == 1


def test_generate_keeps_the_order_and_goes_on_after_bad_lines(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, smollm2_path: Path
) -> None:
    lines = [
        '{"prompt": "The capital of France is", "max_tokens": 20, "id": "long"}',
        "not json",
        '{"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1, "id": 7}',
        "",
        '{"prompt": "x", "temperature": -1}',
        '{"prompt": "x", "wisdom": 3}',
        '{"id": "neither"}',
        '{"prompt": "x", "max_tokens": "many"}',
        '{"prompt": [0, 99999999]}',
        '{"prompt": "One, two,", "n": 2, "seed": 1, "temperature": 1.0, "max_tokens": 2,'
        ' "logprobs": 1, "prompt_logprobs": 0}',
    ]
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text("\n".join(lines))
    code, _, err = run(
        capsys, "generate", str(smollm2_path), "-i", str(source), "-o", str(target), *SMALL
    )
    records = [json.loads(line) for line in target.read_text().splitlines()]
    assert code == 1
    assert "9 lines, 6 failed" in err
    assert [record["line"] for record in records] == [1, 2, 3, 5, 6, 7, 8, 9, 10]
    assert [record["line"] for record in records if "error" in record] == [2, 5, 6, 7, 8, 9]
    assert records[0]["id"] == "long"
    assert "Paris" in records[0]["outputs"][0]["text"]
    assert records[2]["usage"]["completion_tokens"] == 1
    assert [item["index"] for item in records[-1]["outputs"]] == [0, 1]
    for item in records[-1]["outputs"]:
        assert [len(item["token_ids"]), len(item["logprobs"])] == [2, 2]
        for token_id, position in zip(item["token_ids"], item["logprobs"], strict=True):
            assert position[str(token_id)]["logprob"] < 0
    assert records[-1]["prompt_logprobs"][0] is None
    assert len(records[-1]["prompt_logprobs"]) == records[-1]["usage"]["prompt_tokens"]
    assert records[0]["outputs"][0]["stop_reason"] is None
    assert "logprobs" not in records[0]["outputs"][0]
    assert "temperature" in records[3]["error"]["message"]


def test_inspect_model_lists_metadata_and_types(
    capsys: pytest.CaptureFixture[str], smollm2_path: Path
) -> None:
    code, out, _ = run(capsys, "inspect", "model", str(smollm2_path), "--tensors")
    assert code == 0
    assert "general.architecture" in out
    assert "Q4_1" in out
    assert "token_embd.weight" in out


def test_inspect_config_gives_reasons(
    capsys: pytest.CaptureFixture[str], smollm2_path: Path
) -> None:
    code, out, _ = run(capsys, "inspect", "config", str(smollm2_path), "--threads", "1")
    assert code == 0
    lines = {line.split()[0]: line for line in out.splitlines() if line}
    assert lines["threads"].split()[1:] == ["1", "given"]
    assert "the model's own" in lines["max-model-len"]
    assert "fastest of" in lines["isa"]


def test_inspect_program_prints_instructions_and_times(
    capsys: pytest.CaptureFixture[str], smollm2_path: Path
) -> None:
    code, out, _ = run(capsys, "inspect", "program", str(smollm2_path), *SMALL)
    assert code == 0
    assert "attention" in out
    assert "result " in out
    code, out, _ = run(capsys, "inspect", "program", str(smollm2_path), *SMALL, "--profile", "3")
    assert code == 0
    assert " us " in out
    assert "for 3 tokens" in out


def test_options_come_from_a_file_too(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, smollm2_path: Path
) -> None:
    file = tmp_path / "octavo.yaml"
    file.write_text("max-model-len: 256\nkv-cache-memory: 32M\nthreads: 1\n")
    code, out, _ = run(
        capsys, "inspect", "config", str(smollm2_path), "--config", str(file), "--threads", "2"
    )
    assert code == 0
    lines = {line.split()[0]: line.split() for line in out.splitlines() if line}
    assert lines["max-model-len"][1] == "256"
    assert lines["threads"][1] == "2"
