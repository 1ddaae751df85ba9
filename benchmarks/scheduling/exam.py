"""One octavo server, loaded by several kinds of clients at once. For exams of scheduling policies.

A stream is one kind of client: who it is, what it sends, when. A request that got no first token
counts as one that took longer than any other.
"""

from __future__ import annotations

import asyncio
import math
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from zlib import crc32

import msgspec
import yaml

from benchmarks.peers.octavo import octavo_server
from benchmarks.peers.process import PeerError, PeerProcess
from benchmarks.peers.server import free_port
from octavo.bench.event_stream import get
from octavo.bench.lengths import parse_lengths
from octavo.bench.load import COMPLETIONS, LoadError, Outcome, Server, first_model, run_load
from octavo.bench.workload import LoadRequest, Workload, poisson_arrivals
from octavo.metrics.snapshot import Snapshot, parse_snapshot

START_SECONDS = 60.0
NO_BOUND = "100000"
"""Requests that may wait, and connections: the order is examined here, not how many are refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Client(Server):
    """Adds `fields` to what is sent. The tenant's key is its name."""

    fields: Mapping[str, object] = field(default_factory=dict)

    def body(self, request: LoadRequest) -> bytes:
        plain = msgspec.json.decode(Server.body(self, request), type=dict[str, object])
        return msgspec.json.encode({**plain, **self.fields})


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """`rate` requests a second for `seconds`, by chance. Lengths as `octavo bench serve` has them.

    `is_background`: ended when the others have all been answered. `start` is in seconds.
    """

    name: str
    rate: float
    seconds: float
    input_lengths: str
    output_lengths: str
    tenant: str = "tenant"
    fields: Mapping[str, object] = field(default_factory=dict)
    is_background: bool = False
    start: float = 0.0

    @property
    def seed(self) -> int:
        """Streams of different names say different things, at different times."""
        return crc32(self.name.encode())

    def requests(self) -> list[LoadRequest]:
        return Workload(
            num_prompts=max(1, round(self.rate * self.seconds)),
            input_lengths=parse_lengths(self.input_lengths, "input"),
            output_lengths=parse_lengths(self.output_lengths, "output"),
            seed=self.seed,
        ).requests()


@contextmanager
def running_server(
    model: Path, threads: int, tenants: Sequence[str], options: Sequence[str]
) -> Iterator[str]:
    """The URL of a server that knows these tenants and bounds no queue."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        yaml.safe_dump({"tenants": {name: {"keys": [name]} for name in tenants}}, file)
        file.flush()
        port = free_port()
        flags = [*options, "--tenants", file.name, "--max-num-queued-reqs", NO_BOUND]
        flags += ["--max-num-connections", NO_BOUND]
        command, environment = octavo_server(model, threads, port, flags)
        process = PeerProcess("octavo", command, environment)
        try:
            url = f"http://127.0.0.1:{port}"
            asyncio.run(_await_answer(process, client(url, tenants[0])))
            yield url
        finally:
            process.close()


def client(url: str, tenant: str, fields: Mapping[str, object] | None = None) -> Client:
    return Client(
        base_url=url,
        endpoint=COMPLETIONS,
        model="",
        api_key=tenant,
        ignore_eos=True,
        timeout_seconds=45.0,
        fields={"model": None, **(fields or {})},
    )


async def load(url: str, streams: Sequence[Stream]) -> dict[str, list[Outcome]]:
    """What each stream got, by its name. Those in the background are left out."""
    tasks = {stream.name: asyncio.create_task(_send(url, stream)) for stream in streams}
    watched = [stream.name for stream in streams if not stream.is_background]
    outcomes = {name: await tasks[name] for name in watched}
    for task in tasks.values():
        task.cancel()
    await asyncio.gather(*tasks.values(), return_exceptions=True)
    return outcomes


async def look(server: Server) -> Snapshot:
    """What its metrics say now, by `time.perf_counter`."""
    text = await get(server.target("/metrics"), server.headers)
    return parse_snapshot(text.decode(), time.perf_counter())


def ttfts(outcomes: Sequence[Outcome]) -> list[float]:
    """Seconds, ascending; infinite where no token came."""
    return sorted(outcome.ttft if outcome.arrival_seconds else math.inf for outcome in outcomes)


def latencies(outcomes: Sequence[Outcome]) -> list[float]:
    """Seconds to the end, ascending; infinite where the end was an error."""
    return sorted(math.inf if outcome.error else outcome.end_seconds for outcome in outcomes)


def nearest_rank(ordered: Sequence[float], percent: float) -> float:
    """The least sample that so many percent do not exceed. Nothing is interpolated to infinity."""
    return ordered[max(0, math.ceil(percent / 100 * len(ordered)) - 1)]


def row(name: str, seconds: Sequence[float]) -> str:
    """Count, mean, median, 90th and 99th percentile, in milliseconds; "-" is not finite."""
    values = (sum(seconds) / len(seconds), *(nearest_rank(seconds, p) for p in (50, 90, 99)))
    texts = (f"{1e3 * value:.0f}" if math.isfinite(value) else "-" for value in values)
    return f"{name:34}{len(seconds):6}" + "".join(f"{text:>9}" for text in texts)


def errors(outcomes: Sequence[Outcome]) -> str:
    """The commonest error and how many failed; empty if all were answered."""
    found = Counter(outcome.error for outcome in outcomes if outcome.error)
    return f"{found.total()} failed: {found.most_common(1)[0][0]}" if found else ""


HEADER = f"{'milliseconds':34}{'n':>6}{'mean':>9}{'p50':>9}{'p90':>9}{'p99':>9}"


async def _send(url: str, stream: Stream) -> list[Outcome]:
    requests = stream.requests()
    arrivals = [
        stream.start + at for at in poisson_arrivals(len(requests), stream.rate, stream.seed)
    ]
    sender = client(url, stream.tenant, stream.fields)
    return await run_load(sender, requests, arrivals=arrivals)


async def _await_answer(process: PeerProcess, server: Server) -> None:
    end = time.perf_counter() + START_SECONDS
    while time.perf_counter() < end:
        if not process.is_alive:
            raise PeerError(f"octavo has ended: {process.log}")
        with suppress(LoadError):
            await first_model(server)
            await run_load(server, [LoadRequest("the", num_prompt_tokens=1, max_tokens=4)] * 2)
            return
        await asyncio.sleep(0.05)
    raise PeerError(f"octavo did not answer in {START_SECONDS:g} s: {process.log}")
