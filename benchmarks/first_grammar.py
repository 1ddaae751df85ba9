"""How long a running stream stands still, and /health takes, while the first grammar arrives.

    python benchmarks/first_grammar.py URL

URL is that of an octavo server that has not been asked for a grammar since it started, without /v1.
One stream runs; after two seconds somebody asks for an answer with a JSON schema. Shows the longest
times between two pieces of the stream, and of /health, before and after that.
"""

from __future__ import annotations

import argparse
import asyncio
import time

import httpx

ALONE_SECONDS = 2.0
STREAM = {
    "messages": [{"role": "user", "content": "Tell me a very long story."}],
    "max_tokens": 2000,
    "ignore_eos": True,
    "stream": True,
}
WITH_GRAMMAR = {
    "messages": [{"role": "user", "content": "Is the sky blue?"}],
    "max_tokens": 20,
    "response_format": {
        "type": "json_schema",
        "json_schema": {"name": "x", "schema": {"type": "object", "properties": {"a": {}}}},
    },
}


class Gaps:
    """Durations with the times at which they ended."""

    def __init__(self) -> None:
        self.ended: list[tuple[float, float]] = []

    def longest(self, since: float, until: float) -> float:
        """In milliseconds."""
        return 1000 * max((one for end, one in self.ended if since <= end <= until), default=0.0)


async def read_stream(http: httpx.AsyncClient, gaps: Gaps) -> None:
    last: float | None = None
    async with http.stream("POST", "/v1/chat/completions", json=STREAM) as response:
        response.raise_for_status()
        async for line in response.aiter_lines():
            if not line.startswith("data: {"):
                continue
            now = time.perf_counter()
            if last is not None:
                gaps.ended.append((now, now - last))
            last = now


async def ask_health(http: httpx.AsyncClient, gaps: Gaps) -> None:
    while True:
        start = time.perf_counter()
        (await http.get("/health")).raise_for_status()
        now = time.perf_counter()
        gaps.ended.append((now, now - start))
        await asyncio.sleep(0.01)


async def measure(url: str) -> None:
    stream, health = Gaps(), Gaps()
    async with httpx.AsyncClient(base_url=url, timeout=120) as http:
        tasks = [
            asyncio.create_task(read_stream(http, stream)),
            asyncio.create_task(ask_health(http, health)),
        ]
        await asyncio.sleep(ALONE_SECONDS)
        for what in ("the first grammar", "the second grammar"):
            asked = time.perf_counter()
            response = await http.post("/v1/chat/completions", json=WITH_GRAMMAR)
            response.raise_for_status()
            answered = time.perf_counter()
            alone = stream.longest(asked - 1, asked), health.longest(asked - 1, asked)
            during = stream.longest(asked, answered + 0.2), health.longest(asked, answered + 0.2)
            print(
                f"{what}: answered after {1000 * (answered - asked):.0f} ms; longest time between"
                f" pieces {alone[0]:.0f} ms before, {during[0]:.0f} ms then; /health"
                f" {alone[1]:.0f} ms before, {during[1]:.0f} ms then"
            )
            await asyncio.sleep(1.5)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    asyncio.run(measure(parser.parse_args().url))


if __name__ == "__main__":
    main()
