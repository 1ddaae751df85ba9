"""Whether priority, sjf and deadline do what they are for, beside fcfs, on a real server.

    PYTHONPATH=src:. python -m benchmarks.scheduling.orders MODEL [priority] [sjf] [deadline]

Each exam sends the same overload (more than the server can answer meanwhile) to a fresh server with
`fcfs` and to one with the policy, and waits until all is answered.

priority: one request in ten is urgent. Their time to first token should be short.
sjf:      one in nine is seven times the work, and fewer are sent. The mean latency should fall.
deadline: half of the requests have to be answered soon, half later. More should be in time.
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
    errors,
    latencies,
    load,
    row,
    running_server,
    ttfts,
)
from octavo.bench.load import Outcome

TENANT = "tenant"
SHORT = ("uniform:30:90", "uniform:16:48")
LONG = ("uniform:500:700", "uniform:160:240")


def streams(exam: str, rate: float, seconds: float) -> list[Stream]:
    def stream(name: str, share: float, lengths: tuple[str, str], **fields: object) -> Stream:
        return Stream(
            name=name,
            rate=share * rate,
            seconds=seconds,
            input_lengths=lengths[0],
            output_lengths=lengths[1],
            fields=fields,
        )

    if exam == "priority":
        return [stream("urgent", 0.1, SHORT, priority=-1), stream("others", 0.9, SHORT)]
    if exam == "sjf":
        return [stream("short", 0.4, SHORT), stream("long", 0.05, LONG)]
    return [stream("soon", 0.5, SHORT, timeout=2.0), stream("later", 0.5, SHORT, timeout=20.0)]


def without_priority(stream: Stream) -> Stream:
    """fcfs refuses a priority that it would ignore."""
    fields = {name: value for name, value in stream.fields.items() if name != "priority"}
    return replace(stream, fields=fields)


def show(policy: str, outcomes: dict[str, list[Outcome]]) -> None:
    everybody = [outcome for found in outcomes.values() for outcome in found]
    for name, found in {**outcomes, "all": everybody}.items():
        in_time = [outcome for outcome in found if not outcome.error]
        print(row(f"{policy}: {name}, first token", ttfts(found)))
        if failures := errors(found):
            print(f"{policy}: {name}, {failures}")
        if in_time:
            print(row(f"{policy}: {name}, latency of answered", latencies(in_time)), flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("exams", nargs="*", default=["priority", "sjf", "deadline"])
    parser.add_argument("--rate", type=float, default=50.0, help="requests a second")
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--max-num-seqs", default="16")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args(arguments)
    print(HEADER, flush=True)
    for exam in options.exams:
        sent = streams(exam, options.rate, options.seconds)
        for policy in ("fcfs", exam):
            flags = ["--scheduling-policy", policy, "--max-num-seqs", options.max_num_seqs]
            with running_server(options.model, options.threads, [TENANT], flags) as url:
                these = sent if policy == "priority" else [without_priority(item) for item in sent]
                show(policy, asyncio.run(load(url, these)))


if __name__ == "__main__":
    main()
