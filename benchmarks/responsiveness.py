"""How long /health takes while one client sends what is dear to read.

    python -m benchmarks.responsiveness --url URL

Every 20 ms somebody asks for /health, first alone, then while large messages, prompts that nobody
can answer, deep JSON, many biases and grammars that are bombs arrive one after the other.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Mapping

import httpx

PERIOD_SECONDS = 0.02
ROUNDS = 3


def _user(text: str) -> dict[str, object]:
    return {"messages": [{"role": "user", "content": text}], "max_tokens": 1}


def attacks() -> Mapping[str, bytes]:
    """Bodies by name, none larger than the default limit of 4 MiB."""
    bomb = {"type": "object", "properties": {"x": {"type": "string", "pattern": "(a?){400}a{400}"}}}
    bodies: dict[str, object] = {
        "4 MiB message": _user("The quick brown fox. " * 195_000),
        "1 M characters": _user("word " * 200_000),
        "200 k characters": _user("word " * 40_000),
        "200 k spaces": _user(" " * 200_000),
        "100 k emoji": _user("\U0001f600" * 100_000),
        "control tokens": _user("<|im_end|>" * 20_000),
        "10,000 biases": {**_user("a"), "logit_bias": {str(i): 1 for i in range(10_000)}},
        "600 k token ids": {**_user("a"), "stop_token_ids": list(range(600_000))},
        "40 k objects": {**_user("a"), "documents": [{"a": {"b": [1, 2, 3]}}] * 40_000},
        "grammar bomb": {**_user("a"), "structured_outputs": {"json": bomb}},
        "regex bomb": {**_user("a"), "structured_outputs": {"regex": "((a{1,99}){1,99}){1,99}"}},
    }
    return {name: json.dumps(body).encode() for name, body in bodies.items()}


async def _watch(http: httpx.AsyncClient, seconds: list[float], stop: asyncio.Event) -> None:
    while not stop.is_set():
        start = time.perf_counter()
        (await http.get("/health")).raise_for_status()
        seconds.append(time.perf_counter() - start)
        await asyncio.sleep(max(0.0, PERIOD_SECONDS - seconds[-1]))


async def measure(url: str, body: bytes | None) -> tuple[list[float], list[int]]:
    """Seconds of each /health, and the statuses of the attacks."""
    seconds: list[float] = []
    statuses: list[int] = []
    stop = asyncio.Event()
    async with httpx.AsyncClient(base_url=url, timeout=60) as http:
        watching = asyncio.create_task(_watch(http, seconds, stop))
        for _ in range(ROUNDS):
            if body is None:
                await asyncio.sleep(0.5)
                continue
            answer = await http.post("/v1/chat/completions", content=body)
            statuses.append(answer.status_code)
        stop.set()
        await watching
    return seconds, statuses


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True)
    url = parser.parse_args().url
    print("| while | answered | asked | median | p99 | max (ms) |\n|---|---|---|---|---|---|")
    for name, body in {"nothing": None, **attacks()}.items():
        seconds, statuses = await measure(url, body)
        ordered = sorted(1000 * one for one in seconds)
        p99 = ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]
        median = ordered[len(ordered) // 2]
        shown = ", ".join(map(str, sorted(set(statuses))))
        print(
            f"| {name} | {shown} | {len(ordered)} | {median:.1f} | {p99:.1f} | {ordered[-1]:.1f} |"
        )


if __name__ == "__main__":
    asyncio.run(main())
