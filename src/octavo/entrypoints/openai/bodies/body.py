"""What every request body may carry, and the types that its fields are written with.

A field that is not there is unknown: 400. Null means that an optional field is not given. A field
of type `Unsupported` is known, and refused unless its value asks for nothing. `Label` fields mean
nothing to an engine by their own definition. Knows no engine.
"""

from __future__ import annotations

from typing import Annotated, Any, cast

import msgspec

from octavo.errors import InvalidRequest

Unsupported = Annotated[Any, msgspec.Meta(description="Not supported; only null is accepted.")]
Label = str | None


class RequestBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every body may carry."""

    model: str | None = None
    user: Label = None
    metadata: dict[str, str] | None = None
    request_id: Label = None


class EngineBody(RequestBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a body may carry that keeps the engine busy."""

    cache_salt: str | None = None
    priority: int | None = None
    timeout: float | None = None


Prompts = str | list[str | int | list[int]]


def listed_prompts(given: Prompts, param: str) -> list[str | list[int]]:
    """The prompts as a list: of texts, or of token ids. Raises `InvalidRequest`."""
    if isinstance(given, str):
        return [given]
    kinds = {type(item) for item in given}
    if kinds == {int}:
        return [cast(list[int], given)]
    if kinds in ({str}, {list}):
        return cast(list[str | list[int]], given)
    shown = "empty" if not kinds else "a mixed list"
    raise InvalidRequest(
        f"{param} is {shown}; a string, a list of strings, a list of token ids or a list of "
        "lists of token ids is allowed, none of the lists empty",
        param=param,
    )
