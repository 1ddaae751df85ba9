"""One streamed POST over HTTP/1.1: the data of its server-sent events, as they arrive.

A client of our own, because a load generator must cost the machine it measures as little as it
can. One connection for each request. Knows no JSON.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

MAX_LINE_BYTES = 16 << 20
MAX_ERROR_CHARS = 500
DATA = b"data:"


class HttpError(Exception):
    """The server refused, or did not speak HTTP/1.1."""


@dataclass(frozen=True, slots=True)
class Target:
    host: str
    port: int
    path: str
    context: ssl.SSLContext | None


def parse_url(url: str) -> Target:
    """Raises ValueError unless it is an http or https URL with a host."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{url!r} is no http or https URL")
    is_secure = parts.scheme == "https"
    return Target(
        host=parts.hostname,
        port=parts.port or (443 if is_secure else 80),
        path=(parts.path or "/") + (f"?{parts.query}" if parts.query else ""),
        context=ssl.create_default_context() if is_secure else None,
    )


async def post_events(
    target: Target, body: bytes, headers: Mapping[str, str]
) -> AsyncGenerator[bytes]:
    """Data of each event. Raises HttpError, OSError, or asyncio's errors of a stream cut short."""
    reader, writer = await asyncio.open_connection(
        target.host, target.port, ssl=target.context, limit=MAX_LINE_BYTES
    )
    try:
        writer.write(_head("POST", target, {**headers, "Content-Length": str(len(body))}) + body)
        await writer.drain()
        lines = await _body_lines(reader)
        async for line in lines:
            if line.startswith(DATA):
                yield line[len(DATA) :].strip()
    finally:
        writer.close()


async def get(target: Target, headers: Mapping[str, str]) -> bytes:
    """The body of a GET. Raises as `post_events` does."""
    reader, writer = await asyncio.open_connection(target.host, target.port, ssl=target.context)
    try:
        writer.write(_head("GET", target, headers))
        await writer.drain()
        return b"\n".join([line async for line in await _body_lines(reader)])
    finally:
        writer.close()


def _head(method: str, target: Target, headers: Mapping[str, str]) -> bytes:
    host = f"[{target.host}]" if ":" in target.host else target.host
    fields = {"Host": f"{host}:{target.port}", "Connection": "close", **headers}
    lines = [f"{method} {target.path} HTTP/1.1", *(f"{key}: {fields[key]}" for key in fields)]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


async def _body_lines(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """The lines of a good answer's body; HttpError for any other answer."""
    status, headers = await _read_head(reader)
    pieces = _pieces(reader, headers)
    if status != 200:
        text = b"".join([piece async for piece in pieces]).decode("utf-8", "replace")
        raise HttpError(f"HTTP {status}: {' '.join(text.split())[:MAX_ERROR_CHARS]}")
    return _lines(pieces)


async def _read_head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    words = head[0].split(" ")
    if len(words) < 2 or not words[0].startswith("HTTP/1.") or not words[1].isdigit():
        raise HttpError(f"not an HTTP/1.1 answer: {head[0][:80]!r}")
    headers = {}
    for line in head[1:]:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    return int(words[1]), headers


async def _pieces(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> AsyncIterator[bytes]:
    """The body as it comes: chunked, of known length, or until the connection ends."""
    if headers.get("transfer-encoding", "").lower() == "chunked":
        while size := _chunk_bytes(await reader.readline()):
            yield await reader.readexactly(size)
            await reader.readexactly(2)
    elif "content-length" in headers:
        yield await reader.readexactly(int(headers["content-length"]))
    else:
        while piece := await reader.read(1 << 16):
            yield piece


def _chunk_bytes(line: bytes) -> int:
    try:
        return int(line.partition(b";")[0], 16)
    except ValueError:
        raise HttpError(f"not a chunk's length: {line[:40]!r}") from None


async def _lines(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    rest = b""
    async for piece in pieces:
        *whole, rest = (rest + piece).split(b"\n")
        for line in whole:
            yield line
    if rest:
        yield rest
