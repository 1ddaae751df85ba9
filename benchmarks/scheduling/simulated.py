"""The exams of scheduling policies in virtual time: the real scheduler, a data sheet's machine.

    PYTHONPATH=src:. python -m benchmarks.scheduling.simulated [fair] [priority] [sjf] [deadline]

Each exam is a trace for `octavo simulate`, run with `fcfs` and with the policy. Kinds of requests
are tenants there, so that figures come by kind; only `fair` looks at that. `fair` is also run
without the flood.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.scheduling.exam import Stream
from benchmarks.scheduling.orders import SHORT, streams
from octavo.bench.workload import LoadRequest, poisson_arrivals

MACHINE = ["--device", "a100-80gb", "--model", "llama-8b", "--max-num-seqs", "32"]


def exam_streams(exam: str, rate: float, seconds: float) -> list[Stream]:
    """Of `fair`: a calm tenant with longer prompts, and one that sends 50 times as much."""
    if exam != "fair":
        return streams(exam, rate, seconds)

    def stream(name: str, share: float, lengths: tuple[str, str]) -> Stream:
        return Stream(
            name=name,
            rate=rate * share,
            seconds=seconds,
            input_lengths=lengths[0],
            output_lengths=lengths[1],
        )

    return [stream("calm", 1 / 51, ("uniform:300:500", "16")), stream("flood", 50 / 51, SHORT)]


def trace(sent: Sequence[Stream]) -> str:
    """JSON lines, by time."""
    arrivals = [(at, request, stream) for stream in sent for request, at in _with_times(stream)]
    rows = [
        {
            "time": at,
            "prompt_tokens": request.num_prompt_tokens,
            "output_tokens": request.max_tokens,
            "tenant": stream.name,
            **stream.fields,
        }
        for at, request, stream in sorted(arrivals, key=lambda arrival: arrival[0])
    ]
    return "\n".join(json.dumps(row) for row in rows)


def _with_times(stream: Stream) -> zip[tuple[LoadRequest, float]]:
    requests = stream.requests()
    return zip(requests, poisson_arrivals(len(requests), stream.rate, stream.seed), strict=True)


def simulate(policy: str, sent: Sequence[Stream]) -> list[Mapping[str, object]]:
    """Figures by kind of request."""
    with tempfile.TemporaryDirectory() as folder:
        file, report = Path(folder, "trace.jsonl"), Path(folder, "report.json")
        file.write_text(trace(sent))
        command = [sys.executable, "-m", "octavo", "simulate", *MACHINE, "--trace", str(file)]
        flags = ["--scheduling-policy", policy, "--output", str(report)]
        subprocess.run([*command, *flags], check=True, stdout=subprocess.DEVNULL)
        figures: list[Mapping[str, object]] = json.loads(report.read_text())["tenants"]
        return figures


def show(policy: str, figures: Sequence[Mapping[str, object]]) -> None:
    for one in figures:
        times = [
            f"{1e3 * one[kind][what]:9.0f}"  # type: ignore[index]
            for kind in ("ttft", "e2e")
            for what in ("mean", "p99")
        ]
        counts = f"{one['num_finished']:7}{one['num_expired']:7}"
        print(f"{policy + ': ' + str(one['tenant']):26}{counts}", *times, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("exams", nargs="*", default=["fair", "priority", "sjf", "deadline"])
    parser.add_argument("--rate", type=float, default=150.0, help="requests a second")
    parser.add_argument("--seconds", type=float, default=20.0)
    options = parser.parse_args()
    print(f"{'milliseconds':26}{'done':>7}{'late':>7}  ttft mean  ttft p99  e2e mean   e2e p99")
    for exam in options.exams:
        sent = exam_streams(exam, options.rate, options.seconds)
        if exam == "fair":
            show("alone", simulate("fcfs", sent[:1]))
        for policy in ("fcfs", exam):
            show(policy, simulate(policy, sent))


if __name__ == "__main__":
    main()
