"""The load generator: sends a workload to an OpenAI-compatible server and notes what comes when.

Closed loop (so many at once) or open loop (at given times). One failure never stops the others.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from octavo.bench.connections import EVENTS_DONE, Connections, Target, parse_url
from octavo.bench.event_stream import HttpError, events, get, post
from octavo.bench.profile import ProcessorTime, parse_processor_time
from octavo.bench.workload import LoadRequest
from octavo.errors import ConfigError, OctavoError

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
OnFinished = Callable[[int, int], None]


class LoadError(OctavoError):
    """The server cannot be asked at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """Whom to ask. `base_url` as http://127.0.0.1:8000, without /v1. Each request has a connection
    of its own unless the load `keeps_connections`, as the clients of an application do."""

    base_url: str
    endpoint: str
    model: str
    api_key: str = ""
    ignore_eos: bool = False
    keeps_connections: bool = False
    timeout_seconds: float = 600.0

    def __post_init__(self) -> None:
        if self.endpoint not in (COMPLETIONS, CHAT):
            raise ConfigError(
                f"--endpoint is {self.endpoint!r}; {COMPLETIONS} or {CHAT} is allowed"
            )
        try:
            parse_url(self.base_url)
        except ValueError as error:
            raise ConfigError(f"--base-url: {error}") from None

    @property
    def headers(self) -> dict[str, str]:
        authorization = {"Authorization": f"Bearer {self.api_key}"} if self.api_key else {}
        return {"Content-Type": "application/json", "Accept": "text/event-stream", **authorization}

    def target(self, path: str) -> Target:
        return parse_url(self.base_url.rstrip("/").removesuffix("/v1") + path)

    def body(self, request: LoadRequest) -> bytes:
        fields: dict[str, object] = {
            "model": self.model,
            "max_tokens": request.max_tokens,
            "temperature": 0.0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if self.ignore_eos:
            fields["ignore_eos"] = True
        if self.endpoint == CHAT:
            fields["messages"] = [{"role": "user", "content": request.prompt}]
        else:
            fields["prompt"] = request.prompt
        return msgspec.json.encode(fields)


@dataclass(slots=True)
class Outcome:
    """One request. Times are seconds from its sending; token counts are the server's.

    `arrival_seconds` are the arrivals of its pieces of text, from the first on.
    """

    num_prompt_tokens: int
    num_output_tokens: int = 0
    arrival_seconds: list[float] = field(default_factory=list)
    end_seconds: float = 0.0
    error: str = ""

    @property
    def ttft(self) -> float:
        return self.arrival_seconds[0]

    @property
    def latency(self) -> float:
        return self.arrival_seconds[-1]

    @property
    def tpot(self) -> float | None:
        """Seconds per token after the first; None where there is but one."""
        if self.num_output_tokens < 2:
            return None
        return (self.latency - self.ttft) / (self.num_output_tokens - 1)

    @property
    def itls(self) -> list[float]:
        """Seconds between pieces: between tokens, where the server sends each at once."""
        times = self.arrival_seconds
        return [after - before for before, after in itertools.pairwise(times)]


class _Choice(msgspec.Struct):
    text: str | None = None
    delta: dict[str, object] = {}

    @property
    def has_text(self) -> bool:
        return bool(self.text or self.delta.get("content") or self.delta.get("reasoning_content"))


class _Usage(msgspec.Struct):
    prompt_tokens: int = 0
    completion_tokens: int = 0


class _Event(msgspec.Struct):
    choices: list[_Choice] = []
    usage: _Usage | None = None
    error: object = None


async def ask(
    server: Server, request: LoadRequest, connections: Connections | None = None
) -> Outcome:
    """Send one request and read its stream to the end. Failures are in the outcome."""
    outcome = Outcome(request.num_prompt_tokens)
    start = time.perf_counter()
    try:
        async with asyncio.timeout(server.timeout_seconds):
            target = server.target(server.endpoint)
            pieces = await post(target, server.body(request), server.headers, connections)
        outcome.end_seconds = time.perf_counter() - start
        _note_events(events(pieces), outcome, start)
    except TimeoutError:
        outcome.error = f"no end within {server.timeout_seconds:g} seconds"
    except (HttpError, OSError, ValueError) as error:
        outcome.error = f"{type(error).__name__}: {error}"
    outcome.end_seconds = outcome.end_seconds or time.perf_counter() - start
    if not outcome.error and not outcome.arrival_seconds:
        outcome.error = "an answer without text"
    return outcome


def _note_events(arrived: Iterable[tuple[float, bytes]], outcome: Outcome, start: float) -> None:
    decode = msgspec.json.Decoder(_Event).decode
    for arrival, data in arrived:
        if data == EVENTS_DONE:
            break
        event = decode(data)
        if event.error is not None:
            raise HttpError(f"the stream ended with {event.error}")
        if any(choice.has_text for choice in event.choices):
            outcome.arrival_seconds.append(arrival - start)
        if event.usage is not None:
            outcome.num_prompt_tokens = event.usage.prompt_tokens
            outcome.num_output_tokens = event.usage.completion_tokens
    else:
        raise HttpError("the stream was cut short")
    # A server that counts nothing has sent about a token with each piece.
    outcome.num_output_tokens = outcome.num_output_tokens or len(outcome.arrival_seconds)


async def run_load(
    server: Server,
    requests: Sequence[LoadRequest],
    *,
    arrivals: Sequence[float] | None = None,
    max_concurrency: int | None = None,
    on_finished: OnFinished | None = None,
) -> list[Outcome]:
    """All outcomes in the order of `requests`.

    `arrivals` are the seconds at which each is sent; without them all are sent at once. At most
    `max_concurrency` are open together: others wait, and their time starts when they are sent.
    """
    room = asyncio.Semaphore(max_concurrency or max(1, len(requests)))
    start = time.perf_counter()
    num_finished = 0
    connections = Connections() if server.keeps_connections else None

    async def one(index: int) -> Outcome:
        nonlocal num_finished
        if arrivals is not None:
            await asyncio.sleep(max(0.0, arrivals[index] - (time.perf_counter() - start)))
        async with room:
            outcome = await ask(server, requests[index], connections)
        num_finished += 1
        if on_finished is not None:
            on_finished(num_finished, len(requests))
        return outcome

    try:
        return list(await asyncio.gather(*(one(index) for index in range(len(requests)))))
    finally:
        if connections is not None:
            connections.close()


async def processor_time(server: Server) -> ProcessorTime:
    """So far. Raises ConfigError for a server that does not count it, LoadError for none."""
    try:
        text = await get(server.target("/metrics"), server.headers)
    except (HttpError, OSError) as error:
        raise LoadError(f"{server.base_url} does not show its metrics: {error}") from None
    return parse_processor_time(text.decode("utf-8", "replace"), server.base_url)


async def first_model(server: Server) -> str:
    """The name of the first model that the server lists. Raises LoadError."""
    try:
        listing = msgspec.json.decode(
            await get(server.target("/v1/models"), server.headers), type=Mapping[str, object]
        )
        models = msgspec.convert(listing["data"], list[dict[str, object]])
        return str(models[0]["id"])
    except (HttpError, OSError, ValueError, LookupError) as error:
        raise LoadError(f"{server.base_url} does not list its models: {error}") from None
