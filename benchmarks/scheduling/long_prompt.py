"""Do running answers notice a long prompt? Time between tokens with and without one beside them.

    PYTHONPATH=src:. python -m benchmarks.scheduling.long_prompt MODEL --max-step-seconds 0 0.06
        [--streams 8] [--prompt-tokens 4000] [--llama-server PROGRAM]

So many streams write; the same again with a long prompt that arrives while they do. For each bound
of the step time (0: none): the 50th and 99th percentile of the time between two tokens, calm and
beside the prompt, and how long the prompt took to its first token. llama-server takes the same.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from benchmarks.peers.llama_cpp import llama_server
from benchmarks.peers.process import PeerProcess
from benchmarks.peers.server import free_port
from benchmarks.scheduling.exam import client, nearest_rank, running_server
from octavo.bench.lengths import parse_lengths
from octavo.bench.load import LoadError, Outcome, Server, ask, first_model
from octavo.bench.workload import LoadRequest, Workload

STREAM_PROMPT_TOKENS = 64
LLAMA_SECONDS = 300.0
LEAD_SECONDS = 1.5
"""The streams have begun to write before the long prompt comes."""


def workload(num_prompts: int, input_len: int, output_len: int, seed: int) -> list[LoadRequest]:
    return Workload(
        num_prompts=num_prompts,
        input_lengths=parse_lengths(str(input_len), "input"),
        output_lengths=parse_lengths(str(output_len), "output"),
        seed=seed,
    ).requests()


async def run(
    server: Server, streams: Sequence[LoadRequest], prompt: LoadRequest | None
) -> tuple[list[float], Outcome | None]:
    """Seconds between tokens of all streams (while the prompt is read, if there is one), ascending,
    and what became of the prompt."""
    start = time.perf_counter()
    tasks = [asyncio.create_task(ask(server, stream)) for stream in streams]
    long = None
    if prompt is not None:
        await asyncio.sleep(LEAD_SECONDS)
        sent = time.perf_counter() - start
        long = await ask(server, prompt)
        if long.error:
            raise LoadError(f"the long prompt: {long.error}")
        window = (sent, sent + long.ttft)
    else:
        window = (LEAD_SECONDS, float("inf"))
    gaps = []
    for outcome in await asyncio.gather(*tasks):
        if outcome.error:
            raise LoadError(outcome.error)
        arrivals = outcome.arrival_seconds
        pairs = pairwise(arrivals)
        gaps += [after - before for before, after in pairs if window[0] <= after <= window[1]]
    return sorted(gaps), long


def measure(name: str, server: Server, options: argparse.Namespace) -> None:
    streams = workload(options.streams, STREAM_PROMPT_TOKENS, options.answer_tokens, 1)
    prompt = workload(1, options.prompt_tokens, 2, 2)[0]
    asyncio.run(run(server, streams[:1], None))
    calm, _ = asyncio.run(run(server, streams, None))
    beside, long = asyncio.run(run(server, streams, prompt))
    assert long is not None
    calm_p99, beside_p99 = nearest_rank(calm, 99), nearest_rank(beside, 99)
    print(
        f"{name:24}{1e3 * nearest_rank(calm, 50):8.1f}{1e3 * calm_p99:8.1f}"
        f"{1e3 * nearest_rank(beside, 50):10.1f}{1e3 * beside_p99:8.1f}{beside_p99 / calm_p99:8.2f}"
        f"{long.ttft:11.1f}   ({len(calm)}, {len(beside)} gaps)",
        flush=True,
    )


@contextmanager
def llama(options: argparse.Namespace) -> Iterator[Server]:
    port = free_port()
    room = options.prompt_tokens + options.answer_tokens + STREAM_PROMPT_TOKENS + 64
    command, environment = llama_server(
        options.llama_server,
        options.model,
        options.threads,
        port,
        slots=options.streams + 1,
        context=room,
    )
    process = PeerProcess("llama-server", command, environment)
    server = replace(client(f"http://127.0.0.1:{port}", "any"), timeout_seconds=LLAMA_SECONDS)
    try:
        asyncio.run(_await_model(server))
        yield server
    finally:
        process.close()


async def _await_model(server: Server) -> None:
    for _ in range(600):
        try:
            await first_model(server)
        except LoadError:
            await asyncio.sleep(0.1)
        else:
            return
    raise LoadError("llama-server did not answer in a minute")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("--max-step-seconds", nargs="+", default=["0", "0.06"])
    parser.add_argument("--streams", type=int, default=8)
    parser.add_argument("--prompt-tokens", type=int, default=4000)
    parser.add_argument("--answer-tokens", type=int, default=300)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--llama-server", type=Path)
    options = parser.parse_args(arguments)
    print(
        f"{'milliseconds':24}{'calm p50':>8}{'p99':>8}{'beside p50':>10}{'p99':>8}{'ratio':>8}"
        f"{'prompt s':>11}"
    )
    for seconds in options.max_step_seconds:
        flags = ["--max-step-seconds", seconds]
        with running_server(options.model, options.threads, ["one"], flags) as url:
            measure(f"octavo, step {seconds} s", client(url, "one"), options)
    if options.llama_server:
        with llama(options) as server:
            measure("llama-server", server, options)


if __name__ == "__main__":
    main()
