"""Many requests of mixed lengths with random cancels against a running server; then its books.

    python benchmarks/soak.py --url http://127.0.0.1:8000 --requests 64 --concurrency 32

Passes (exit status 0) when every request was answered or cancelled, nothing runs, waits or holds a
page afterwards, and the counters of /metrics have grown by what the client counted.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import time
from dataclasses import dataclass, field

import httpx
from prometheus_client.parser import text_string_to_metric_families

SETTLE_SECONDS = 10.0
WORDS = [
    "time",
    "year",
    "people",
    "way",
    "day",
    "man",
    "thing",
    "woman",
    "life",
    "child",
    "world",
    "school",
    "state",
    "family",
]


@dataclass
class Tally:
    """What the clients saw."""

    num_answered: int = 0
    num_cancelled: int = 0
    num_prompt_tokens: int = 0
    num_completion_tokens: int = 0
    failures: list[str] = field(default_factory=list)
    first_token_seconds: list[float] = field(default_factory=list)
    total_seconds: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Plan:
    """One request: what is asked, whether streamed, and after how many events to go away."""

    body: dict[str, object]
    cancel_after: int | None


def make_plans(num_requests: int, cancel_share: float, seed: int) -> list[Plan]:
    """Prompts of 1 to 200 words, answers of 1 to 64 tokens."""
    dice = random.Random(seed)
    plans = []
    for _ in range(num_requests):
        prompt = " ".join(dice.choices(WORDS, k=dice.choice((1, 5, 20, 60, 200))))
        body: dict[str, object] = {
            "prompt": prompt,
            "max_tokens": dice.choice((1, 4, 16, 64)),
            "seed": dice.getrandbits(31),
            "ignore_eos": True,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        cancels = dice.random() < cancel_share
        plans.append(Plan(body, dice.choice((0, 1, 3, 8)) if cancels else None))
    return plans


class Soak:
    def __init__(self, http: httpx.AsyncClient, concurrency: int) -> None:
        self._http = http
        self._slots = asyncio.Semaphore(concurrency)
        self.tally = Tally()

    async def run(self, plans: list[Plan]) -> None:
        await asyncio.gather(*(self._one(plan) for plan in plans))

    async def _one(self, plan: Plan) -> None:
        async with self._slots:
            try:
                await self._stream(plan)
            except httpx.HTTPError as error:
                self.tally.failures.append(f"{type(error).__name__}: {error}")

    async def _stream(self, plan: Plan) -> None:
        start_time = time.perf_counter()
        num_events, usage, is_done = 0, None, False
        async with self._http.stream("POST", "/v1/completions", json=plan.body) as response:
            if response.status_code != 200:
                await response.aread()
                self.tally.failures.append(f"{response.status_code}: {response.text[:200]}")
                return
            async for line in response.aiter_lines():
                if num_events == plan.cancel_after:
                    self.tally.num_cancelled += 1
                    return
                if not line.startswith("data: "):
                    continue
                num_events += 1
                if num_events == 1:
                    self.tally.first_token_seconds.append(time.perf_counter() - start_time)
                is_done = line == "data: [DONE]"
                event = {} if is_done else json.loads(line.removeprefix("data: "))
                if "error" in event:
                    self.tally.failures.append(str(event["error"]))
                    return
                usage = event.get("usage") or usage
        self._count_answer(plan, usage, is_done)
        self.tally.total_seconds.append(time.perf_counter() - start_time)

    def _count_answer(self, plan: Plan, usage: dict[str, int] | None, is_done: bool) -> None:
        if not is_done or usage is None or usage["completion_tokens"] != plan.body["max_tokens"]:
            self.tally.failures.append(f"an incomplete answer: usage {usage}, end mark {is_done}")
            return
        self.tally.num_answered += 1
        self.tally.num_prompt_tokens += usage["prompt_tokens"]
        self.tally.num_completion_tokens += usage["completion_tokens"]


async def read_metrics(http: httpx.AsyncClient) -> dict[str, float]:
    """Values by name, and finished requests by reason as name.reason."""
    text = (await http.get("/metrics")).raise_for_status().text
    values: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            reason = sample.labels.get("finished_reason")
            values[f"{sample.name}.{reason}" if reason else sample.name] = sample.value
    return values


async def settle(http: httpx.AsyncClient) -> dict[str, float]:
    """The metrics once nothing runs or waits, or after a while."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while True:
        values = await read_metrics(http)
        busy = values["vllm:num_requests_running"] + values["vllm:num_requests_waiting"]
        if not busy or time.monotonic() > deadline:
            return values
        await asyncio.sleep(0.05)


def check_books(tally: Tally, before: dict[str, float], after: dict[str, float]) -> list[str]:
    """What does not agree; empty when all is well."""

    def grown(name: str) -> int:
        return int(after[name] - before[name])

    wrong = list(tally.failures)
    for name in ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc"):
        if after[f"vllm:{name}"] != 0:
            wrong.append(f"{name} is {after[f'vllm:{name}']} at the end")
    finished = {
        reason: grown(f"vllm:request_success_total.{reason}")
        for reason in ("stop", "length", "abort", "error")
    }
    if sum(finished.values()) != tally.num_answered + tally.num_cancelled:
        wrong.append(f"finished {finished}; the client counted {tally}")
    if finished["abort"] > tally.num_cancelled or finished["error"]:
        wrong.append(f"finished {finished}; the client cancelled {tally.num_cancelled}")
    for name, counted in (
        ("vllm:prompt_tokens_total", tally.num_prompt_tokens),
        ("vllm:generation_tokens_total", tally.num_completion_tokens),
    ):
        is_exact = tally.num_cancelled == 0
        if grown(name) < counted or (is_exact and grown(name) != counted):
            wrong.append(f"{name} grew by {grown(name)}; the client counted {counted}")
    return wrong


def summary(tally: Tally, seconds: float) -> str:
    def middle(values: list[float], share: float) -> float:
        return sorted(values)[int(share * (len(values) - 1))] if values else 0.0

    return (
        f"{tally.num_answered} answered, {tally.num_cancelled} cancelled, "
        f"{len(tally.failures)} failed in {seconds:.1f} s; "
        f"{tally.num_completion_tokens / seconds:.0f} tokens/s in whole answers; first event "
        f"p50 {middle(tally.first_token_seconds, 0.5):.3f} s, "
        f"p99 {middle(tally.first_token_seconds, 0.99):.3f} s; whole answer "
        f"p50 {middle(tally.total_seconds, 0.5):.2f} s"
    )


async def soak(url: str, plans: list[Plan], concurrency: int, api_key: str) -> list[str]:
    """Run all plans and check the books. Prints a summary; returns what is wrong."""
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=300, limits=limits) as http:
        before = await settle(http)
        run = Soak(http, concurrency)
        start_time = time.perf_counter()
        await run.run(plans)
        print(summary(run.tally, time.perf_counter() - start_time))
        return check_books(run.tally, before, await settle(http))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--requests", type=int, default=64)
    parser.add_argument("--concurrency", type=int, default=32)
    parser.add_argument("--cancel-share", type=float, default=0.3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--api-key", default="")
    options = parser.parse_args()
    plans = make_plans(options.requests, options.cancel_share, options.seed)
    wrong = asyncio.run(soak(options.url, plans, options.concurrency, options.api_key))
    for line in wrong:
        print(f"WRONG: {line}")
    print("the books agree" if not wrong else f"{len(wrong)} things are wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
