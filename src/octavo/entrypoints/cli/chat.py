"""A conversation in the terminal: reads lines, streams answers, keeps what was said.

Knows neither argparse nor how an engine is loaded.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import TextIO

from octavo.core.outputs import SequenceOutput
from octavo.core.request import EngineRequest
from octavo.core.sampling_params import SamplingParams
from octavo.entrypoints.cli.sampling import limited
from octavo.entrypoints.local import LocalEngine
from octavo.entrypoints.progress import note
from octavo.errors import EngineDead, RequestError

PROMPT = ">>> "
HELP = """/clear   forget the conversation
/exit    leave (so does Ctrl-D)
/help    show this
Ctrl-C   stop the answer"""


@dataclass(slots=True)
class Speed:
    """When tokens came, in seconds of time.perf_counter()."""

    start_seconds: float = field(default_factory=time.perf_counter)
    first_seconds: float = 0.0
    last_seconds: float = 0.0
    num_tokens: int = 0

    def count(self, num_tokens: int) -> None:
        if num_tokens == 0:
            return
        self.last_seconds = time.perf_counter()
        if self.num_tokens == 0:
            self.first_seconds = self.last_seconds
        self.num_tokens += num_tokens

    def __str__(self) -> str:
        if self.num_tokens == 0:
            return "[no tokens]"
        wait_seconds = self.first_seconds - self.start_seconds
        text = f"[{self.num_tokens} tokens, the first after {wait_seconds:.2f} s"
        decode_seconds = self.last_seconds - self.first_seconds
        if self.num_tokens > 1 and decode_seconds > 0:
            text += f", then {(self.num_tokens - 1) / decode_seconds:.1f} tokens/s"
        return text + "]"


class Terminal:
    """Answers on `out`, everything else on `notes`."""

    def __init__(
        self, engine: LocalEngine, params: SamplingParams, system: str | None, out: TextIO
    ) -> None:
        self._engine = engine
        self._params = params
        self._system = system
        self._out = out
        self._history: list[dict[str, str]] = []
        self.clear()

    def clear(self) -> None:
        """Forget what was said."""
        self._history = []
        if self._system is not None:
            self._history.append({"role": "system", "content": self._system})

    def answer(self, text: str) -> None:
        """Stream one answer. A base model, which has no chat template, continues the text.

        The turn is remembered when it is complete or was stopped by hand; raises RequestError or
        EngineDead otherwise.
        """
        inputs = self._engine.front.inputs
        if self._engine.front.template is None:
            self._stream(inputs.completion(text, self._params))
            return
        turn = {"role": "user", "content": text}
        said = self._stream(inputs.chat([*self._history, turn], self._params))
        self._history += [turn, {"role": "assistant", "content": said}]

    def loop(self) -> None:
        """Read and answer lines until the user leaves."""
        note("/help shows the commands")
        for line in _lines():
            match line.strip():
                case "":
                    continue
                case "/exit" | "/quit" | "/bye":
                    return
                case "/clear":
                    self.clear()
                case "/help":
                    note(HELP)
                case command if command.startswith("/") and " " not in command:
                    note(f"{command} is no command; /help shows them")
                case text:
                    self._answer_or_explain(text)

    def _answer_or_explain(self, text: str) -> None:
        try:
            self.answer(text)
        except EngineDead:
            raise
        except RequestError as error:
            note(f"{error} (/clear forgets the conversation)")

    def _stream(self, request: EngineRequest) -> str:
        """Write the answer as it comes; returns it. Ctrl-C ends it early."""
        speed = Speed()
        parts: list[str] = []
        try:
            with closing(self._engine.run([limited(request, self._params)])) as deltas:
                for delta in deltas:
                    _refuse_error(delta)
                    speed.count(len(delta.token_ids))
                    parts.append(delta.text)
                    self._out.write(delta.text)
                    self._out.flush()
        except KeyboardInterrupt:
            pass
        self._out.write("\n")
        self._out.flush()
        note(str(speed))
        return "".join(parts)


def _refuse_error(delta: SequenceOutput) -> None:
    if delta.finish_reason == "error":
        raise EngineDead(delta.error or "the engine failed")


def _lines() -> Iterator[str]:
    """What the user types, until end of file. Ctrl-C at the prompt drops the line."""
    while True:
        try:
            yield input(PROMPT)
        except EOFError:
            note("")
            return
        except KeyboardInterrupt:
            note("")
