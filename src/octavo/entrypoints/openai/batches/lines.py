"""The lines of a batch: a request in OpenAI's form, and the record of what came of it.

Also vLLM's form, which is the same. Knows no store, no HTTP and no engine.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec

from octavo.entrypoints.openai.batches.objects import BatchError, BatchUsage
from octavo.entrypoints.openai.bodies.ids import new_id
from octavo.errors import InvalidRequest

MAX_CUSTOM_ID_CHARS = 512
MAX_BATCH_LINES = 50_000
MAX_BATCH_ERRORS = 100
LINE_OVERHEAD_BYTES = 8 * 1024
"""What a line may hold around its body: a custom id, escaped, and the names of the fields."""


class RequestLine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`body` is kept as it was written, so that it is read as strictly as any request."""

    custom_id: str
    method: str
    url: str
    body: msgspec.Raw


class LineResponse(msgspec.Struct, frozen=True, kw_only=True):
    status_code: int
    request_id: str
    body: msgspec.Raw


class LineError(msgspec.Struct, frozen=True, kw_only=True):
    code: str
    message: str


class LineRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One line of an output or error file: a response, or why there is none."""

    id: str = msgspec.field(default_factory=lambda: new_id("batch_req_"))
    custom_id: str | None
    response: LineResponse | None = None
    error: LineError | None = None

    @property
    def is_ok(self) -> bool:
        return self.response is not None and self.response.status_code == 200


class Numbered(NamedTuple):
    """A line of a file, from 1; why it cannot be read stands in place of its content."""

    number: int
    content: RequestLine | InvalidRequest


_DECODER = msgspec.json.Decoder(RequestLine)


def parse_line(text: bytes) -> RequestLine:
    """Raises `InvalidRequest` naming what is wrong. The body is not looked into."""
    try:
        line = _DECODER.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidRequest(f"the line is no request: {error}", code="invalid_line") from None
    if not 1 <= len(line.custom_id) <= MAX_CUSTOM_ID_CHARS:
        raise InvalidRequest(
            f"custom_id has {len(line.custom_id)} characters; 1 to {MAX_CUSTOM_ID_CHARS} are "
            "allowed",
            param="custom_id",
            code="invalid_custom_id",
        )
    if line.method != "POST":
        raise InvalidRequest(
            f"method is {line.method[:16]!r}; 'POST' is allowed", param="method", code="bad_method"
        )
    return line


def read_lines(file: BinaryIO, max_body_bytes: int) -> Iterator[Numbered]:
    """The lines that are not blank, one at a time."""
    limit = max_body_bytes + LINE_OVERHEAD_BYTES
    number = 0
    while text := file.readline(limit + 1):
        number += 1
        if len(text) > limit and not text.endswith(b"\n"):
            _skip_line(file)
            error = InvalidRequest(
                f"the line has more than {limit} bytes", code="line_too_long", param="body"
            )
            yield Numbered(number, error)
        elif text.strip():
            try:
                yield Numbered(number, parse_line(text))
            except InvalidRequest as complaint:
                yield Numbered(number, complaint)


def _skip_line(file: BinaryIO) -> None:
    while (text := file.readline(1 << 16)) and not text.endswith(b"\n"):
        pass


def check_input(path: Path, endpoint: str, max_body_bytes: int) -> tuple[int, list[BatchError]]:
    """How many requests a file holds, and what is wrong with it. Bodies are looked into later."""
    errors: list[BatchError] = []
    seen: set[str] = set()
    num_lines = 0
    with path.open("rb") as file:
        for number, content in read_lines(file, max_body_bytes):
            num_lines += 1
            if error := _line_error(content, endpoint, seen):
                code, message, param = error.code or "invalid_line", error.message, error.param
                errors.append(BatchError(code=code, message=message, line=number, param=param))
            if num_lines > MAX_BATCH_LINES:
                message = f"the file has more than {MAX_BATCH_LINES} requests"
                errors.append(BatchError(code="too_many_requests", message=message))
            if len(errors) >= MAX_BATCH_ERRORS or num_lines > MAX_BATCH_LINES:
                break
    if not num_lines:
        errors.append(BatchError(code="empty_file", message="the file has no requests"))
    return num_lines, errors


def _line_error(
    content: RequestLine | InvalidRequest, endpoint: str, seen: set[str]
) -> InvalidRequest | None:
    if isinstance(content, InvalidRequest):
        return content
    if content.url != endpoint:
        return InvalidRequest(
            f"url is {content.url[:64]!r}; that of the batch is {endpoint!r}",
            param="url",
            code="mismatched_url",
        )
    if content.custom_id in seen:
        return InvalidRequest(
            f"the custom_id {content.custom_id[:64]!r} is given twice",
            param="custom_id",
            code="duplicate_custom_id",
        )
    seen.add(content.custom_id)
    return None


class _Usage(msgspec.Struct):
    """What chat, completions, responses and embeddings say of tokens, as far as they say it."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    prompt_tokens_details: dict[str, int] | None = None
    completion_tokens_details: dict[str, int] | None = None
    input_tokens_details: dict[str, int] | None = None
    output_tokens_details: dict[str, int] | None = None


class _Body(msgspec.Struct):
    usage: _Usage | None = None


_BODY_DECODER = msgspec.json.Decoder(_Body)


def add_usage(total: BatchUsage, body: msgspec.Raw) -> None:
    """Count what one response used."""
    usage = _BODY_DECODER.decode(body).usage
    if usage is None:
        return
    num_input = usage.prompt_tokens or usage.input_tokens
    num_output = usage.completion_tokens or usage.output_tokens
    inputs = usage.prompt_tokens_details or usage.input_tokens_details or {}
    outputs = usage.completion_tokens_details or usage.output_tokens_details or {}
    total.input_tokens += num_input
    total.output_tokens += num_output
    total.total_tokens += num_input + num_output
    total.input_tokens_details.cached_tokens += inputs.get("cached_tokens", 0)
    total.output_tokens_details.reasoning_tokens += outputs.get("reasoning_tokens", 0)


_RECORD_DECODER = msgspec.json.Decoder(LineRecord)


def read_records(path: Path) -> Iterator[tuple[LineRecord, int]]:
    """The records of a file that was written before, each with the offset behind it.

    Ends before the first that is broken: a process that dies leaves half a line, a machine worse.
    """
    if not path.exists():
        return
    offset = 0
    with path.open("rb") as file:
        for text in file:
            try:
                record = _RECORD_DECODER.decode(text)
            except (msgspec.DecodeError, UnicodeDecodeError):
                return
            if not text.endswith(b"\n"):
                return
            offset += len(text)
            yield record, offset
