"""`octavo generate`: a file of prompts in, a file of answers out, both JSON lines, in one order.

A line that cannot be honoured gives an error record with its number; the others go on.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import msgspec

from octavo.config.engine import EngineConfig
from octavo.core.request import EngineRequest
from octavo.core.sampling_params import SamplingParams
from octavo.entrypoints.cli.flags import add_config_file, add_options, read_options
from octavo.entrypoints.cli.load_local import load
from octavo.entrypoints.cli.loading import add_model, engine_config
from octavo.entrypoints.cli.sampling import SamplingOptions, limited
from octavo.entrypoints.local import LocalEngine
from octavo.entrypoints.progress import BatchBar, note
from octavo.entrypoints.results import (
    LOWEST_LOGPROB,
    CompletionOutput,
    Logprob,
    PositionLogprobs,
    RequestOutput,
    ResultBuilder,
)
from octavo.errors import InvalidRequest, RequestError

OPEN_PER_SLOT = 2
"""Requests in the engine for each running slot: enough that no slot waits for a line to be read."""

PROMPT_FIELDS = frozenset({"prompt", "messages"})
SAMPLING_FIELDS = frozenset(SamplingParams.__struct_fields__)
Record = dict[str, object]


def configure(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument(
        "-i",
        "--input",
        type=Path,
        required=True,
        metavar="FILE",
        help='JSON lines: {"prompt": text} or {"messages": [...]}, each with sampling fields'
        " (flags are their defaults) and an id if wanted",
    )
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FILE", help="JSON lines, one for each"
    )
    add_config_file(parser)
    add_options(parser, SamplingOptions, "sampling")
    add_options(parser, EngineConfig, "engine", without=("model",))
    parser.set_defaults(execute=execute)


def execute(namespace: argparse.Namespace) -> int:
    values = read_options(namespace, EngineConfig, SamplingOptions)
    defaults = SamplingOptions(**values[SamplingOptions]).params()  # type: ignore[arg-type]
    with contextlib.ExitStack() as stack:
        lines = stack.enter_context(namespace.input.open("rb"))
        num_lines = sum(1 for line in lines if line.strip())
        lines.seek(0)
        engine = load(engine_config(values[EngineConfig]))
        stack.callback(engine.close)
        out = stack.enter_context(namespace.output.open("wb"))
        bar = stack.enter_context(BatchBar(num_lines, is_shown=True))
        batch = Batch(engine, defaults, out, bar)
        batch.run(lines)
    note(f"{num_lines} lines, {batch.num_failed} failed")
    return 1 if batch.num_failed else 0


class Batch:
    """Lines in the engine, and finished ones that wait for an earlier line to be written."""

    def __init__(
        self, engine: LocalEngine, defaults: SamplingParams, out: BinaryIO, bar: BatchBar
    ) -> None:
        self.num_failed = 0
        self._engine = engine
        self._defaults = msgspec.structs.asdict(defaults)
        self._out = out
        self._bar = bar
        self._heads: dict[str, Record] = {}
        self._builders: dict[str, ResultBuilder] = {}
        self._records: dict[int, Record | None] = {}  # by line, in the order of the file

    def run(self, lines: BinaryIO) -> None:
        """Answer every line."""
        max_open = OPEN_PER_SLOT * self._engine.front.resolved.config.max_num_seqs
        for delta in self._engine.run(self._requests(lines), max_open=max_open):
            builder = self._builders[delta.request_id]
            builder.add(delta)
            self._bar.add(num_tokens=len(delta.token_ids), num_prompts=0)
            if delta.finish_reason == "error":
                self._heads[delta.request_id]["error"] = {"message": delta.error}
            if builder.result.finished:
                self._finish(builder.result)
        self._write_ready()

    def _requests(self, lines: BinaryIO) -> Iterator[EngineRequest]:
        """The requests of the good lines. Bad ones leave their error record on the way."""
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            self._records[number] = None
            head: Record = {"line": number}
            try:
                request = self._request(line, head)
            except RequestError as error:
                self._settle(head | {"error": {"message": error.message, "param": error.param}})
                continue
            self._heads[request.request_id] = head
            tokenizer = self._engine.front.tokenizer
            self._builders[request.request_id] = ResultBuilder(request, None, tokenizer)
            yield request

    def _request(self, line: bytes, head: Record) -> EngineRequest:
        fields = _read_object(line)
        if "id" in fields:
            head["id"] = fields.pop("id")
        content = {name: fields.pop(name) for name in PROMPT_FIELDS if name in fields}
        if len(content) != 1:
            raise InvalidRequest("one of prompt and messages must be given", param="prompt")
        params = self._params(fields)
        inputs = self._engine.front.inputs
        if "messages" in content:
            return limited(inputs.chat(_messages(content["messages"]), params), params)
        return limited(inputs.completion(_prompt(content["prompt"]), params), params)

    def _params(self, fields: Record) -> SamplingParams:
        for name in fields:
            if name not in SAMPLING_FIELDS:
                raise InvalidRequest(f"{name!r} is not a field of a line", param=name)
        try:
            return msgspec.convert({**self._defaults, **fields}, SamplingParams, str_keys=True)
        except msgspec.ValidationError as error:
            raise InvalidRequest(str(error)) from None

    def _finish(self, result: RequestOutput) -> None:
        head = self._heads.pop(result.request_id)
        del self._builders[result.request_id]
        if "error" in head:
            self._settle(head)
            return
        answers = [_answer(item) for item in result.outputs]
        usage = {
            "prompt_tokens": len(result.prompt_token_ids),
            "completion_tokens": sum(len(item.token_ids) for item in result.outputs),
            "cached_tokens": result.num_cached_tokens,
        }
        record = head | {"outputs": answers, "usage": usage}
        if result.prompt_logprobs is not None:
            record["prompt_logprobs"] = [_logprobs(item) for item in result.prompt_logprobs]
        self._settle(record)

    def _settle(self, record: Record) -> None:
        """A line has its record. Written at once unless an earlier line has none yet."""
        self.num_failed += "error" in record
        number = record["line"]
        assert isinstance(number, int)
        self._records[number] = record
        self._bar.add(num_tokens=0, num_prompts=1)
        self._write_ready()

    def _write_ready(self) -> None:
        while self._records:
            number = next(iter(self._records))
            record = self._records[number]
            if record is None:
                return
            del self._records[number]
            self._out.write(msgspec.json.encode(record) + b"\n")


def _answer(output: CompletionOutput) -> Record:
    answer: Record = {
        "index": output.index,
        "text": output.text,
        "token_ids": output.token_ids,
        "finish_reason": output.finish_reason,
        "stop_reason": output.stop_reason,
    }
    if output.logprobs is not None:
        answer["logprobs"] = [_logprobs(position) for position in output.logprobs]
    return answer


def _logprobs(position: PositionLogprobs | None) -> dict[int, Logprob] | None:
    """By token id. JSON cannot say minus infinity."""
    if position is None:
        return None
    return {
        token_id: replace(entry, logprob=max(entry.logprob, LOWEST_LOGPROB))
        for token_id, entry in position.items()
    }


def _read_object(line: bytes) -> Record:
    try:
        return msgspec.json.decode(line, type=dict[str, object])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"not a JSON object: {error}") from None


def _prompt(value: object) -> str | list[int]:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return value  # the ids are checked with the vocabulary
    raise InvalidRequest("prompt must be a text or a list of token ids", param="prompt")


def _messages(value: object) -> list[dict[str, object]]:
    try:
        return msgspec.convert(value, list[dict[str, object]])
    except msgspec.ValidationError as error:
        raise InvalidRequest(f"messages: {error}", param="messages") from None
