"""What a grammar is compiled from: a form that a client asks for, or a text of ours about schemas.

Plain data; crosses to the worker process.
"""

from __future__ import annotations

import json
from typing import Final

import msgspec

from octavo.core.structured_outputs import MAX_SCHEMA_BYTES, StructuredOutputs
from octavo.errors import InvalidRequest

CONTENT: Final = "content"
"""The name of `outputs` in `lark`."""


class SchemaPart(msgspec.Struct, frozen=True, array_like=True):
    """What stands at `pointer` in the JSON schema `text`, for the name `@name` in the Lark text.
    `place` is where the schema stands in the request. Raises `InvalidRequest` beyond the limit."""

    name: str
    text: str
    pointer: str
    place: str

    def __post_init__(self) -> None:
        num_bytes = len(self.text.encode())
        if num_bytes > MAX_SCHEMA_BYTES:
            raise InvalidRequest(
                f"{self.place} has {num_bytes} bytes; at most {MAX_SCHEMA_BYTES} are allowed",
                param=self.place,
            )


class GrammarTask(msgspec.Struct, frozen=True):
    """Without `lark` the grammar is that of `outputs`."""

    outputs: StructuredOutputs | None = None
    lark: str = ""
    parts: tuple[SchemaPart, ...] = ()

    @property
    def param(self) -> str:
        """The field that is at fault if something is and nobody knows what."""
        return f"structured_outputs.{self.outputs.kind}" if self.outputs else "tools"


def respelled(grammar: str, lark: str) -> str:
    """A grammar that was compiled from a task with a Lark text, with `lark` in its place."""
    document = json.loads(grammar)
    document["grammars"][0]["lark_grammar"] = lark
    return json.dumps(document)
