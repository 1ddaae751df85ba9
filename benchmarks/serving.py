"""Running servers under the same load in turns: output tokens per second, and ratios to the first.

    python -m benchmarks.serving octavo=http://127.0.0.1:8000 llama=http://127.0.0.1:8080 \
        [--clients 1 8 32] [--rounds 5] [--input-len 203] [--output-len 128] [--prefix-len 1000]

Any server with OpenAI's completions can be a peer: llama-server, vLLM, OpenVINO's. Every round
sends all servers the same new prompts; an idle server should cost no processor time.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from pathlib import Path

from octavo.bench.fingerprint import fingerprint
from octavo.bench.lengths import FORMS, parse_lengths
from octavo.bench.load import COMPLETIONS, LoadError, Server, first_model, run_load
from octavo.bench.report import Metric, Report, now, report_to_json
from octavo.bench.workload import Workload
from octavo.config.machine import this_machine
from octavo.entrypoints.cli.bench_output import show

Samples = dict[tuple[str, int], list[float]]
"""Output tokens per second by server and number of clients, an item a round."""


def main() -> None:
    arguments = parse_arguments()
    servers = asyncio.run(find_servers(arguments.servers))
    samples: Samples = {}
    for number in range(arguments.rounds):
        for clients in arguments.clients:
            for name, server in servers.items():
                rate = asyncio.run(output_rate(server, clients, number, arguments))
                samples.setdefault((name, clients), []).append(rate)
    report = Report(
        kind="serving side by side",
        created=now(),
        machine=fingerprint(this_machine().num_cores),
        model=next(iter(servers.values())).model,
        settings={
            name: getattr(arguments, name) for name in ("input_len", "output_len", "prefix_len")
        },
        metrics=[*rate_metrics(samples), *ratio_metrics(samples, next(iter(servers)))],
    )
    show(report)
    if arguments.json:
        arguments.json.write_bytes(report_to_json(report))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("servers", nargs="+", metavar="NAME=URL")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--requests-per-client", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--input-len", default="203", help=FORMS)
    parser.add_argument("--output-len", default="128", help=FORMS)
    parser.add_argument("--prefix-len", type=int, default=0)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write figures and machine there")
    return parser.parse_args()


async def find_servers(texts: list[str]) -> dict[str, Server]:
    servers = {}
    for text in texts:
        name, _, url = text.partition("=")
        asked = Server(base_url=url, endpoint=COMPLETIONS, model="")
        servers[name] = Server(
            base_url=url, endpoint=COMPLETIONS, model=await first_model(asked), ignore_eos=True
        )
    return servers


async def output_rate(
    server: Server, clients: int, seed: int, arguments: argparse.Namespace
) -> float:
    workload = Workload(
        num_prompts=clients * arguments.requests_per_client,
        input_lengths=parse_lengths(arguments.input_len, "--input-len"),
        output_lengths=parse_lengths(arguments.output_len, "--output-len"),
        num_prefix_tokens=arguments.prefix_len,
        seed=1000 * seed + clients,
    )
    start = time.perf_counter()
    outcomes = await run_load(server, workload.requests(), max_concurrency=clients)
    seconds = time.perf_counter() - start
    for outcome in outcomes:
        if outcome.error:
            raise LoadError(f"{server.base_url}: {outcome.error}")
    return sum(outcome.num_output_tokens for outcome in outcomes) / seconds


def rate_metrics(samples: Samples) -> list[Metric]:
    return [
        Metric(name=f"{name}, {clients} clients", unit="tokens/s", better="higher", samples=rates)
        for (name, clients), rates in samples.items()
    ]


def ratio_metrics(samples: Samples, first: str) -> list[Metric]:
    """The first server over each other one, round by round."""
    return [
        Metric(
            name=f"{first} / {name}, {clients} clients",
            unit="times",
            better="higher",
            samples=[a / b for a, b in zip(samples[first, clients], rates, strict=True)],
        )
        for (name, clients), rates in samples.items()
        if name != first
    ]


if __name__ == "__main__":
    main()
