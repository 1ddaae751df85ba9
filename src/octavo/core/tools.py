"""A tool that a model may call. Plain data; knows no wire and no way of writing a call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tool:
    """`parameters` is the JSON schema of its arguments, as the client gave it: not checked.
    `place` is where it stands in the request, for messages."""

    name: str
    parameters: Mapping[str, object]
    place: str
