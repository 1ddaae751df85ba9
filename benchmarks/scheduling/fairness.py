"""What a flood from one tenant does to another one's time to first token, by scheduling policy.

    PYTHONPATH=src:. python -m benchmarks.scheduling.fairness MODEL [--policies fcfs fair]
        [--seconds 12] [--rate 1] [--times 50]

A calm tenant sends `--rate` requests a second: first alone, then while another tenant sends
`--times` as many. A real server, a fresh one for each policy.

Nobody who asks for more than a share can be kept from waiting: what the calm tenant asks for is
told as a part of half of what the server computes for both, in tokens of prompts and answers. Loads
of machines of different speed compare where that part is the same.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.scheduling.exam import (
    HEADER,
    Stream,
    client,
    errors,
    load,
    look,
    nearest_rank,
    row,
    running_server,
    ttfts,
)
from octavo.bench.load import Outcome

WARM_UP_SECONDS = 3.0
"""The flood comes first: its queue is there when the calm tenant's requests come."""
COMPUTED = ("vllm:prompt_tokens_total", "vllm:generation_tokens_total")


def main(arguments: Sequence[str] | None = None) -> None:
    options = _parser().parse_args(arguments)
    calm = Stream(
        name="calm",
        tenant="calm",
        rate=options.rate,
        seconds=options.seconds,
        input_lengths=options.calm_input,
        output_lengths=options.calm_output,
    )
    flood = Stream(
        name="flood",
        tenant="flood",
        rate=options.rate * options.times,
        seconds=options.seconds + 30,
        input_lengths=options.flood_input,
        output_lengths=options.flood_output,
        is_background=True,
    )
    print(HEADER, flush=True)
    for policy in options.policies:
        flags = ["--scheduling-policy", policy, *options.options]
        with running_server(options.model, options.threads, ["calm", "flood"], flags) as url:
            examine(url, policy, calm, flood)


def examine(url: str, policy: str, calm: Stream, flood: Stream) -> None:
    """Print what the calm tenant gets alone and beside the flood."""
    alone = ttfts(asyncio.run(load(url, [calm]))["calm"])
    print(row(f"{policy}: calm alone", alone), flush=True)
    # Another name, for other prompts: those of before are cached.
    again = replace(calm, name="calm beside the flood", start=WARM_UP_SECONDS)
    outcomes, computed = asyncio.run(load_beside(url, again, flood))
    beside = ttfts(outcomes)
    print(row(f"{policy}: {again.name}", beside), flush=True)
    if failures := errors(outcomes):
        print(f"{policy}: {again.name}, {failures}")
    ratio = nearest_rank(beside, 99) / nearest_rank(alone, 99)
    print(f"{policy}: p99 is {ratio:.2f} times that of being alone")
    asked, half = tokens_per_second(again), computed / 2
    print(
        f"{policy}: it asks for {asked:.0f} tokens a second, {asked / half:.2f} of its half of the "
        f"{computed:.0f} that are computed",
        flush=True,
    )


async def load_beside(url: str, calm: Stream, flood: Stream) -> tuple[list[Outcome], float]:
    """What the calm tenant got, and how many tokens a second were computed for both meanwhile."""
    server = client(url, calm.tenant)
    before = await look(server)
    outcomes = (await load(url, [flood, calm]))[calm.name]
    news = (await look(server)).since(before)
    return outcomes, sum(map(news.rate, COMPUTED))


def tokens_per_second(stream: Stream) -> float:
    """What it asks for, in prompts and answers."""
    return sum(one.num_prompt_tokens + one.max_tokens for one in stream.requests()) / stream.seconds


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--policies", nargs="+", default=["fcfs", "fair"])
    parser.add_argument("--seconds", type=float, default=12.0)
    parser.add_argument("--rate", type=float, default=1.0, help="of the calm tenant, a second")
    parser.add_argument("--times", type=float, default=50.0, help="the flood's rate over it")
    parser.add_argument("--calm-input", default="uniform:300:500")
    parser.add_argument("--calm-output", default="16")
    parser.add_argument("--flood-input", default="uniform:30:90")
    parser.add_argument("--flood-output", default="uniform:16:48")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--options",
        nargs=argparse.REMAINDER,
        default=["--max-num-seqs", "16"],
        help="of the server",
    )
    return parser


if __name__ == "__main__":
    main()
