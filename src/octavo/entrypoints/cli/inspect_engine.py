"""`octavo inspect engine URL`: a live view of a running server, from its metrics."""

from __future__ import annotations

import argparse
import asyncio
import time

from rich.console import Console
from rich.live import Live

from octavo.bench.connections import Target, parse_url
from octavo.bench.event_stream import HttpError, get
from octavo.config.environment import api_key
from octavo.entrypoints.cli.engine_view import engine_view
from octavo.errors import ConfigError, OctavoError
from octavo.metrics.snapshot import Snapshot, parse_snapshot

MARK = "vllm:num_requests_running"
TIMEOUT_SECONDS = 10


class ServerUnreachable(OctavoError):
    """There are no metrics to show."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="URL", help="of the server, as http://127.0.0.1:8000")
    parser.add_argument(
        "--once", action="store_true", help="print once, as when piped, instead of a live view"
    )
    parser.add_argument(
        "--interval",
        type=_interval,
        default=2.0,
        metavar="SECONDS",
        help="between two looks (default: 2)",
    )
    parser.add_argument(
        "--api-key", default="", metavar="KEY", help="(default: the variable OCTAVO_API_KEY)"
    )
    parser.set_defaults(execute=execute)


def execute(namespace: argparse.Namespace) -> int:
    try:
        parse_url(namespace.url)
        target = parse_url(namespace.url.rstrip("/").removesuffix("/v1") + "/metrics")
    except ValueError as error:
        raise ConfigError(f"URL: {error}") from None
    key = namespace.api_key or api_key()
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    console = Console(highlight=False)
    first = look(target, headers)
    if namespace.once or not console.is_terminal:
        console.print(engine_view(first, None))
        return 0
    watch(target, headers, first, namespace.interval, console)
    return 0


def watch(
    target: Target,
    headers: dict[str, str],
    first: Snapshot,
    interval_seconds: float,
    console: Console,
) -> None:
    """Show what is new until interrupted, or until the server is gone."""
    before = first
    with Live(engine_view(first, None), console=console, auto_refresh=False, screen=True) as live:
        while True:
            time.sleep(interval_seconds)
            now = look(target, headers)
            live.update(engine_view(now, before), refresh=True)
            before = now


def look(target: Target, headers: dict[str, str]) -> Snapshot:
    """Raises ServerUnreachable."""
    where = f"{target.host} port {target.port}"

    async def fetch() -> bytes:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            return await get(target, headers)

    try:
        text = asyncio.run(fetch()).decode("utf-8", "replace")
        snapshot = parse_snapshot(text, time.monotonic())
    except TimeoutError:
        raise ServerUnreachable(f"{where} does not answer within {TIMEOUT_SECONDS} s") from None
    except (HttpError, OSError, ValueError) as error:
        raise ServerUnreachable(f"{where} shows no metrics: {error}") from None
    if not any(name == MARK for name, _ in snapshot.values):
        raise ServerUnreachable(f"{where} shows the metrics of something else than octavo")
    return snapshot


def _interval(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.1 <= seconds <= 3600:
        raise argparse.ArgumentTypeError(f"it is {text!r}; 0.1 to 3600 seconds are allowed")
    return seconds
