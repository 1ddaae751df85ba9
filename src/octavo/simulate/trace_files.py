"""Real traces from files: JSON lines or CSV, under our names or those of published traces.

Owns which column means what. Raises ConfigError naming file, line and field.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from types import MappingProxyType

import msgspec

from octavo.errors import ConfigError
from octavo.simulate.trace import TraceRequest

TIMES = ("time", "timestamp", "arrival_seconds")
PROMPTS = ("prompt_tokens", "num_prompt_tokens", "input_length", "contexttokens", "request tokens")
ANSWERS = ("output_tokens", "num_answer_tokens", "output_length", "generatedtokens")
COLUMNS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"time": TIMES, "prompt tokens": PROMPTS, "output tokens": (*ANSWERS, "response tokens")}
)
"""Lower case. After our own names: Mooncake's (`timestamp` in milliseconds, `input_length`,
`output_length`, `hash_ids` of blocks), Azure's LLM inference traces (TIMESTAMP, ContextTokens,
GeneratedTokens), BurstGPT's (Timestamp, Request tokens, Response tokens)."""

BLOCK_TOKENS = 512
"""Of each of Mooncake's `hash_ids`."""

MAX_TOKENS = 1 << 24

Row = Mapping[str, object]


def read_trace(path: Path, *, speed_up: float = 1.0) -> list[TraceRequest]:
    """In the order of arrival, from 0 seconds on; `speed_up` 2 makes them come twice as fast."""
    text = path.read_text(encoding="utf-8-sig")
    rows = _csv_rows(text) if path.suffix.lower() == ".csv" else _json_rows(text, path)
    names: dict[object, int] = {}
    requests = [_request(row, f"{path} line {line}", names) for line, row in rows]
    if not requests:
        raise ConfigError(f"{path} holds no request")
    first = min(request.arrival_seconds for request in requests)
    moved = [
        msgspec.structs.replace(one, arrival_seconds=(one.arrival_seconds - first) / speed_up)
        for one in requests
    ]
    return sorted(moved, key=lambda one: one.arrival_seconds)


def _json_rows(text: str, path: Path) -> Iterator[tuple[int, Row]]:
    decode = msgspec.json.Decoder(dict[str, object]).decode
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            yield number, _lowered(decode(line).items())
        except msgspec.DecodeError as error:
            raise ConfigError(f"{path} line {number} is no JSON object: {error}") from None


def _csv_rows(text: str) -> Iterator[tuple[int, Row]]:
    for number, row in enumerate(csv.DictReader(io.StringIO(text)), start=2):
        yield number, _lowered((key, value) for key, value in row.items() if key is not None)


def _lowered(items: Iterable[tuple[str, object]]) -> Row:
    return {key.strip().lower(): value for key, value in items}


def _request(row: Row, origin: str, names: dict[object, int]) -> TraceRequest:
    num_prompt_tokens = _count(row, "prompt tokens", origin)
    return TraceRequest(
        arrival_seconds=_seconds(row, origin),
        num_prompt_tokens=num_prompt_tokens,
        # A trace may hold empty answers: the engine draws a token before it can stop.
        num_answer_tokens=max(1, _count(row, "output tokens", origin)),
        tenant=str(row.get("tenant") or ""),
        priority=_integer(row.get("priority") or 0, "priority", origin, -(2**31), 2**31 - 1),
        prefix=_prefix(row, num_prompt_tokens, origin, names),
        max_tokens=_optional_count(row, "max_tokens", origin),
        timeout_seconds=_optional_seconds(row, "timeout", origin),
    )


def _field(row: Row, what: str, origin: str) -> tuple[str, object]:
    for name in COLUMNS[what]:
        if row.get(name) not in (None, ""):
            return name, row[name]
    raise ConfigError(f"{origin} has no {what}; one of {', '.join(COLUMNS[what])} is needed")


def _count(row: Row, what: str, origin: str) -> int:
    name, value = _field(row, what, origin)
    return _integer(value, name, origin, 1 if what == "prompt tokens" else 0, MAX_TOKENS)


def _integer(value: object, name: str, origin: str, low: int, high: int) -> int:
    try:
        number = int(str(value))
    except ValueError:
        number = low - 1
    if not low <= number <= high:
        raise ConfigError(
            f"{origin}: {name} is {value!r}; an integer from {low} to {high} is allowed"
        )
    return number


def _seconds(row: Row, origin: str) -> float:
    """A number of seconds, Mooncake's milliseconds, or a date and time."""
    name, value = _field(row, "time", origin)
    unit = 1e-3 if name == "timestamp" and "input_length" in row else 1.0
    try:
        return float(str(value)) * unit
    except ValueError:
        pass
    try:  # Azure's have seven digits of a second; Python reads six
        return datetime.fromisoformat(str(value)[:26]).timestamp()
    except ValueError:
        raise ConfigError(
            f"{origin}: {name} is {value!r}; seconds, or a date and time, are allowed"
        ) from None


def _optional_count(row: Row, name: str, origin: str) -> int | None:
    value = row.get(name)
    return None if value in (None, "") else _integer(value, name, origin, 1, MAX_TOKENS)


def _optional_seconds(row: Row, name: str, origin: str) -> float | None:
    value = row.get(name)
    if value in (None, ""):
        return None
    try:
        seconds = float(str(value))
    except ValueError:
        seconds = -1.0
    if not seconds > 0:
        raise ConfigError(f"{origin}: {name} is {value!r}; seconds above 0 are allowed")
    return seconds


def _prefix(
    row: Row, num_prompt_tokens: int, origin: str, names: dict[object, int]
) -> tuple[tuple[int, int], ...]:
    """`prefix_id` with `prefix_tokens`, or Mooncake's `hash_ids`."""
    blocks = row.get("hash_ids")
    if isinstance(blocks, list):
        full = blocks[: num_prompt_tokens // BLOCK_TOKENS]
        return tuple((names.setdefault(one, len(names)), BLOCK_TOKENS) for one in full)
    name = row.get("prefix_id")
    if name in (None, ""):
        return ()
    num_tokens = _integer(row.get("prefix_tokens"), "prefix_tokens", origin, 1, num_prompt_tokens)
    return ((names.setdefault(name, len(names)), num_tokens),)
