"""Tokens per second of a server's answers with a JSON schema and without.

    python benchmarks/structured_output.py URL [--streams 8] [--rounds 4] [--octavo]

URL is that of octavo's server or of another one that speaks OpenAI's API, without /v1. `--octavo`
adds cases that only it knows: no white space, and with every token drawn. Cases take turns; a rate
is the median of rounds: from the first text to the last for one stream; for several, of a closed
loop of three answers each, since answers with a schema differ in length.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import httpx
import msgspec

TEXT = {"type": "string", "maxLength": 20}
PLACE = {
    "type": "object",
    "properties": {"city_name": TEXT, "country_name": TEXT},
    "required": ["city_name", "country_name"],
    "additionalProperties": False,
}
COLOURS = {"enum": ["red", "green", "blue", "yellow"]}
SCHEMA = {
    "type": "object",
    "properties": {
        "full_name": TEXT,
        "age_in_years": {"type": "integer", "minimum": 0, "maximum": 120},
        "favourite_colours": {"type": "array", "items": COLOURS, "minItems": 3, "maxItems": 3},
        "place_of_birth": PLACE,
        "short_description": {"type": "string", "maxLength": 200},
    },
    "required": [
        "full_name",
        "age_in_years",
        "favourite_colours",
        "place_of_birth",
        "short_description",
    ],
    "additionalProperties": False,
}
FORM = {"type": "json_schema", "json_schema": {"name": "person", "schema": SCHEMA}}
BODY = {
    "messages": [{"role": "user", "content": "Describe a person as JSON, with all details."}],
    "max_tokens": 120,
    "stream": True,
    "stream_options": {"include_usage": True},
}
FRESH = httpx.Limits(max_keepalive_connections=0)
"""A connection for each answer: not every server keeps one open after a stream."""
Fields = Mapping[str, object]
CASES: Mapping[str, Fields] = {"free": {"ignore_eos": True}, "schema": {"response_format": FORM}}
OCTAVO_CASES: Mapping[str, Fields] = {
    "schema without white space": {
        "structured_outputs": {"json": SCHEMA, "disable_any_whitespace": True}
    },
    "schema, every token drawn": {"response_format": FORM, "logprobs": True},
}


def ask(http: httpx.Client, fields: Fields) -> tuple[int, float]:
    """Tokens of one answer, and the seconds from its first text to its end."""
    num_tokens, first = 0, None
    with http.stream("POST", "/v1/chat/completions", json={**BODY, **fields}) as response:
        response.raise_for_status()
        for line in response.iter_lines():
            if not line.startswith("data: {"):
                continue
            chunk = msgspec.json.decode(line.removeprefix("data: "))
            texts = [one["delta"].get("content") for one in chunk.get("choices") or ()]
            if first is None and any(texts):
                first = time.perf_counter()
            num_tokens = (chunk.get("usage") or {}).get("completion_tokens", num_tokens)
    return num_tokens, time.perf_counter() - (first or 0.0)


def one_stream(http: httpx.Client, fields: Fields) -> float:
    num_tokens, seconds = ask(http, {**fields, "temperature": 0})
    return (num_tokens - 1) / seconds


def several_streams(http: httpx.Client, fields: Fields, num_streams: int) -> float:
    start = time.perf_counter()
    with ThreadPoolExecutor(num_streams) as crowd:
        drawn = [{**fields, "temperature": 0.7, "seed": seed} for seed in range(3 * num_streams)]
        answers = list(crowd.map(lambda one: ask(http, one), drawn))
    return sum(num_tokens for num_tokens, _ in answers) / (time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--streams", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--octavo", action="store_true")
    options = parser.parse_args()
    cases = {**CASES, **(OCTAVO_CASES if options.octavo else {})}
    with httpx.Client(base_url=options.url, timeout=120, limits=FRESH) as http:
        for fields in cases.values():
            one_stream(http, fields)
        single: dict[str, list[float]] = {name: [] for name in cases}
        crowd: dict[str, list[float]] = {name: [] for name in cases}
        for _ in range(options.rounds):
            for name, fields in cases.items():
                single[name].append(one_stream(http, fields))
                crowd[name].append(several_streams(http, fields, options.streams))
    for rates, what in ((single, "one stream"), (crowd, f"{options.streams} streams")):
        free = statistics.median(rates["free"])
        for name, found in rates.items():
            rate = statistics.median(found)
            print(f"{what}, {name}: {rate:.0f} tokens/s, {rate / free:.2f} of free")


if __name__ == "__main__":
    main()
