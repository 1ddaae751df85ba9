"""Traces of others are read under their own columns; bad lines are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from octavo.errors import ConfigError
from octavo.simulate.trace_files import read_trace


def read(tmp_path: Path, text: str, name: str = "t.jsonl", speed_up: float = 1.0):  # type: ignore[no-untyped-def]
    path = tmp_path / name
    path.write_text(text)
    return read_trace(path, speed_up=speed_up)


def test_own_names(tmp_path: Path) -> None:
    lines = (
        '{"time": 12, "prompt_tokens": 40, "output_tokens": 5, "tenant": "a", "priority": -1,'
        ' "timeout": 2.5, "max_tokens": 9, "prefix_id": "p", "prefix_tokens": 16}\n\n'
        '{"time": 10, "prompt_tokens": 4, "output_tokens": 0}\n'
    )
    first, second = read(tmp_path, lines, speed_up=2.0)
    assert (first.arrival_seconds, first.num_answer_tokens, first.prefix) == (0.0, 1, ())
    assert (second.arrival_seconds, second.tenant, second.priority) == (1.0, "a", -1)
    assert (second.timeout_seconds, second.max_tokens, second.prefix) == (2.5, 9, ((0, 16),))


def test_mooncake(tmp_path: Path) -> None:
    lines = (
        '{"timestamp": 0, "input_length": 1100, "output_length": 52, "hash_ids": [46, 47, 48]}\n'
        '{"timestamp": 1500, "input_length": 600, "output_length": 7, "hash_ids": [46, 99]}\n'
    )
    first, second = read(tmp_path, lines)
    assert first.prefix == ((0, 512), (1, 512))
    assert (second.arrival_seconds, second.prefix) == (1.5, ((0, 512),))


def test_azure(tmp_path: Path) -> None:
    text = (
        "TIMESTAMP,ContextTokens,GeneratedTokens\n"
        "2023-11-16 18:15:46.6805900,374,44\n"
        "2023-11-16 18:15:47.1805900,396,109\n"
    )
    first, second = read(tmp_path, text, "azure.csv")
    assert (first.num_prompt_tokens, first.num_answer_tokens) == (374, 44)
    assert second.arrival_seconds == pytest.approx(0.5)


def test_burstgpt(tmp_path: Path) -> None:
    text = (
        "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
        "5,ChatGPT,472,18,490,Conversation log\n"
    )
    (one,) = read(tmp_path, text, "burst.csv")
    assert (one.num_prompt_tokens, one.num_answer_tokens) == (472, 18)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("[1]", "line 1 is no JSON object"),
        ('{"time": 1}', "line 1 has no prompt tokens"),
        ('{"prompt_tokens": 1, "output_tokens": 1}', "line 1 has no time"),
        ('{"time": "soon", "prompt_tokens": 1, "output_tokens": 1}', "time is 'soon'"),
        ('{"time": 1, "prompt_tokens": 0, "output_tokens": 1}', "prompt_tokens is 0"),
        ('{"time": 1, "prompt_tokens": 1, "output_tokens": -1}', "output_tokens is -1"),
        ('{"time": 1, "prompt_tokens": 1, "output_tokens": 1, "timeout": 0}', "timeout is 0"),
        ('{"time": 1, "prompt_tokens": 1, "output_tokens": 1, "prefix_id": 1}', "prefix_tokens is"),
        ("", "holds no request"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, text: str, error: str) -> None:
    with pytest.raises(ConfigError, match=error):
        read(tmp_path, text)
