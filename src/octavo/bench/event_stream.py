"""One streamed POST over HTTP/1.1: the data of its server-sent events, and when each arrived.

An answer is taken apart when it is over. One connection for each request, unless some are kept.
Knows no JSON.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from octavo.bench.connections import Connections, Piece, Target, exchange_once

MAX_ERROR_CHARS = 500
DATA = b"data:"
_CLOSE = {"Connection": "close"}


class HttpError(Exception):
    """The server refused, did not speak HTTP/1.1, or broke off."""


async def post(
    target: Target,
    body: bytes,
    headers: Mapping[str, str],
    connections: Connections | None = None,
) -> list[Piece]:
    """The answer up to the end mark of its events or of the connection; where `connections` are
    kept, whole. Raises OSError."""
    fields = {**headers, "Content-Length": str(len(body))}
    if connections is not None:
        return await connections.exchange(target, _head("POST", target, fields) + body)
    return await exchange_once(target, _head("POST", target, {**fields, **_CLOSE}) + body)


async def get(target: Target, headers: Mapping[str, str]) -> bytes:
    """The body of a GET. Raises OSError or HttpError."""
    pieces = await exchange_once(target, _head("GET", target, {**headers, **_CLOSE}))
    return b"".join(data for _, data in _bodies(pieces))


def events(pieces: Sequence[Piece]) -> Iterator[tuple[float, bytes]]:
    """(arrival, data) of each event of an answer. Raises HttpError for what is none."""
    rest = b""
    for arrival, data in _bodies(pieces):
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            if line.startswith(DATA):
                yield arrival, line[len(DATA) :].strip()


def _head(method: str, target: Target, headers: Mapping[str, str]) -> bytes:
    host = f"[{target.host}]" if ":" in target.host else target.host
    fields = {"Host": f"{host}:{target.port}", **headers}
    lines = [f"{method} {target.path} HTTP/1.1", *(f"{key}: {fields[key]}" for key in fields)]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def _bodies(pieces: Sequence[Piece]) -> list[tuple[float, bytes]]:
    """The body of a good answer as it came; HttpError for any other answer."""
    answer = _Answer()
    bodies = [(piece.arrival, answer.feed(piece.data)) for piece in pieces]
    if not answer.status:
        raise HttpError(f"not an HTTP/1.1 answer: {answer.unread[:80]!r}")
    if answer.status != 200:
        text = b"".join(data for _, data in bodies).decode("utf-8", "replace")
        raise HttpError(f"HTTP {answer.status}: {' '.join(text.split())[:MAX_ERROR_CHARS]}")
    return bodies


class _Answer:
    """Takes an answer apart: head, then a body in chunks or up to the end of the connection."""

    def __init__(self) -> None:
        self.status = 0
        self.unread = b""
        self._is_chunked = False

    def feed(self, data: bytes) -> bytes:
        """The part of the body that `data` completes."""
        self.unread += data
        if not self.status and not self._read_head():
            return b""
        if self._is_chunked:
            return self._read_chunks()
        body, self.unread = self.unread, b""
        return body

    def _read_head(self) -> bool:
        head, end, rest = self.unread.partition(b"\r\n\r\n")
        if not end:
            return False
        first, *lines = head.decode("latin-1").lower().split("\r\n")
        words = first.split(" ")
        if len(words) < 2 or not words[0].startswith("http/1.") or not words[1].isdigit():
            raise HttpError(f"not an HTTP/1.1 answer: {head[:80]!r}")
        fields = dict(line.partition(":")[::2] for line in lines)
        self._is_chunked = fields.get("transfer-encoding", "").strip() == "chunked"
        self.status, self.unread = int(words[1]), rest
        return True

    def _read_chunks(self) -> bytes:
        chunks = []
        start = 0
        while (end := self.unread.find(b"\r\n", start)) >= 0:
            size = _chunk_bytes(self.unread[start:end])
            stop = end + 2 + size
            if len(self.unread) < stop + 2:
                break
            chunks.append(self.unread[end + 2 : stop])
            start = stop + 2
        self.unread = self.unread[start:]
        return b"".join(chunks)


def _chunk_bytes(line: bytes) -> int:
    try:
        return int(line.partition(b";")[0], 16)
    except ValueError:
        raise HttpError(f"not a chunk's length: {line[:40]!r}") from None
