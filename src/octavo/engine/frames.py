"""The messages between the server and the engine's process, and their framing on a byte stream.

A frame is a 4-byte big-endian length and that many bytes of MessagePack, decoded into closed types;
nothing in a frame can name code. Knows no process and no socket.
"""

from __future__ import annotations

import struct
from typing import Generic, TypeVar

import msgspec

from octavo.config.engine import EngineConfig
from octavo.core.outputs import EngineFacts, EngineOutputs
from octavo.core.request import EngineRequest
from octavo.engine.engine_loop import AbortRequest, ResetPrefixCache, StopEngine
from octavo.errors import OctavoError

MAX_FRAME_BYTES = 64 * 1024 * 1024
"""Prompt log probabilities of a 128k context with 20 alternatives fit with room to spare."""

_LENGTH = struct.Struct(">I")


class FrameError(OctavoError):
    """The other side sent something that is no frame of ours."""


class LoadEngine(msgspec.Struct, frozen=True, tag="load"):
    config: EngineConfig


class SubmitRequest(msgspec.Struct, frozen=True, tag="submit"):
    request: EngineRequest


class LoadProgress(msgspec.Struct, frozen=True, tag="progress"):
    num_done: int
    num_total: int


class LoadFailed(msgspec.Struct, frozen=True, tag="failed"):
    """`kind` is the name of a class in `errors`."""

    kind: str
    message: str


class EngineReady(msgspec.Struct, frozen=True, tag="ready"):
    facts: EngineFacts


class EngineStepped(msgspec.Struct, frozen=True, tag="stepped"):
    outputs: EngineOutputs


class Heartbeat(msgspec.Struct, frozen=True, tag="beat"):
    """`stalled_seconds`: how long there has been work and no step has ended; 0 when idle."""

    stalled_seconds: float


ToWorker = LoadEngine | SubmitRequest | AbortRequest | ResetPrefixCache | StopEngine
FromWorker = LoadProgress | LoadFailed | EngineReady | EngineStepped | Heartbeat

Message = TypeVar("Message")


class FrameEncoder:
    """Raises `FrameError` for a message beyond the size limit."""

    def __init__(self) -> None:
        self._encoder = msgspec.msgpack.Encoder()

    def encode(self, message: ToWorker | FromWorker) -> bytes:
        body = self._encoder.encode(message)
        if len(body) > MAX_FRAME_BYTES:
            raise FrameError(f"a message of {len(body)} bytes; at most {MAX_FRAME_BYTES} allowed")
        return _LENGTH.pack(len(body)) + body


class FrameDecoder(Generic[Message]):
    """Turns pieces of a byte stream into messages. Unusable after it has raised `FrameError`."""

    def __init__(self, decoder: msgspec.msgpack.Decoder[Message]) -> None:
        self._decoder = decoder
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Message]:
        self._buffer += data
        messages: list[Message] = []
        start = 0
        while len(self._buffer) - start >= _LENGTH.size:
            (num_bytes,) = _LENGTH.unpack_from(self._buffer, start)
            if num_bytes > MAX_FRAME_BYTES:
                raise FrameError(f"a frame of {num_bytes} bytes; at most {MAX_FRAME_BYTES} allowed")
            end = start + _LENGTH.size + num_bytes
            if end > len(self._buffer):
                break
            messages.append(self._decode(bytes(self._buffer[start + _LENGTH.size : end])))
            start = end
        del self._buffer[:start]
        return messages

    def _decode(self, body: bytes) -> Message:
        try:
            return self._decoder.decode(body)
        except (msgspec.MsgspecError, OctavoError, UnicodeDecodeError) as error:
            raise FrameError(f"a frame that is no message: {error}") from error


def to_worker_decoder() -> FrameDecoder[ToWorker]:
    return FrameDecoder(msgspec.msgpack.Decoder(ToWorker))


def from_worker_decoder() -> FrameDecoder[FromWorker]:
    return FrameDecoder(msgspec.msgpack.Decoder(FromWorker))
