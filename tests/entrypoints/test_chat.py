"""The chat in the terminal, with typed lines and a real model."""

from __future__ import annotations

import builtins
import io
from collections.abc import Generator

import pytest

from octavo import LLM, SamplingParams
from octavo.core.outputs import SequenceOutput
from octavo.core.request import EngineRequest
from octavo.entrypoints.cli.chat import Speed, Terminal
from octavo.entrypoints.local import LocalEngine

SHORT = SamplingParams(temperature=0.0, max_tokens=8)


class Typed:
    """Stands in for `input`: each call gives the next line, raises it, or ends the file."""

    def __init__(self, *lines: str | type[BaseException]) -> None:
        self._lines = iter(lines)

    def __call__(self, _: str) -> str:
        line = next(self._lines, EOFError)
        if isinstance(line, str):
            return line
        raise line


def chat(
    llm: LLM,
    monkeypatch: pytest.MonkeyPatch,
    *lines: str | type[BaseException],
    system: str | None = None,
) -> tuple[Terminal, str]:
    """The terminal after those lines, and what it answered."""
    out = io.StringIO()
    terminal = Terminal(llm._engine, SHORT, system, out)
    monkeypatch.setattr(builtins, "input", Typed(*lines))
    terminal.loop()
    return terminal, out.getvalue()


def test_answers_are_streamed_and_remembered(
    llm: LLM, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal, out = chat(llm, monkeypatch, "Hello", "", "And again")
    roles = [message["role"] for message in terminal._history]
    assert roles == ["user", "assistant", "user", "assistant"]
    assert terminal._history[1]["content"] in out
    assert capsys.readouterr().err.count("tokens/s") == 2


def test_clear_forgets_all_but_the_system_message(
    llm: LLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal, _ = chat(llm, monkeypatch, "Hello", "/clear", system="Be brief.")
    assert terminal._history == [{"role": "system", "content": "Be brief."}]


def test_exit_leaves_and_help_helps(
    llm: LLM, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out = chat(llm, monkeypatch, "/help", "/frobnicate", "/exit", "Hello")
    err = capsys.readouterr().err
    assert out == ""
    assert "forget the conversation" in err
    assert "/frobnicate is no command" in err


def test_ctrl_c_at_the_prompt_drops_the_line(llm: LLM, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, _ = chat(llm, monkeypatch, KeyboardInterrupt, "Hello")
    assert len(terminal._history) == 2


def test_ctrl_c_stops_the_answer_and_keeps_what_was_said(
    llm: LLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    genuine = LocalEngine.run

    def interrupted(
        engine: LocalEngine, requests: list[EngineRequest]
    ) -> Generator[SequenceOutput]:
        for number, output in enumerate(genuine(engine, requests)):
            if number == 2:
                raise KeyboardInterrupt
            yield output

    monkeypatch.setattr(LocalEngine, "run", interrupted)
    terminal, out = chat(llm, monkeypatch, "Tell me a story")
    assert terminal._history[1]["content"] == out.removesuffix("\n")
    monkeypatch.undo()
    assert llm.get_metrics().num_running == 0
    _, out = chat(llm, monkeypatch, "Hello")
    assert out.strip()


def test_a_conversation_that_grew_too_long_is_told_and_kept(
    llm: LLM, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal, _ = chat(llm, monkeypatch, "Hello", "word " * 2000)
    assert len(terminal._history) == 2
    assert "/clear forgets" in capsys.readouterr().err


def test_speed_tells_tokens_and_rate() -> None:
    speed = Speed(start_seconds=0.0)
    assert str(speed) == "[no tokens]"
    speed.num_tokens, speed.first_seconds, speed.last_seconds = 11, 0.5, 1.5
    assert str(speed) == "[11 tokens, the first after 0.50 s, then 10.0 tokens/s]"
