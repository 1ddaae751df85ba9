"""Lists in pages, as OpenAI's clients turn them: so many after one that was seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Generic, Literal, Protocol, TypeVar

import msgspec

from octavo.errors import InvalidRequest


class Listed(Protocol):
    @property
    def id(self) -> str: ...


Item = TypeVar("Item", bound=Listed)


class Page(msgspec.Struct, Generic[Item], frozen=True, kw_only=True):
    object: Literal["list"] = "list"
    data: list[Item]
    first_id: str | None
    last_id: str | None
    has_more: bool


def page_of(
    newest_first: Sequence[Item], query: Mapping[str, str], *, default_limit: int, max_limit: int
) -> Page[Item]:
    """The page that `query` asks for with `limit`, `after` and `order`. Raises `InvalidRequest`."""
    items = newest_first
    if _choice(query, "order", ("desc", "asc")) == "asc":
        items = items[::-1]
    limit = _limit(query.get("limit"), default_limit, max_limit)
    start = _start(items, query.get("after"))
    data = list(items[start : start + limit])
    return Page(
        data=data,
        first_id=data[0].id if data else None,
        last_id=data[-1].id if data else None,
        has_more=start + limit < len(items),
    )


def check_query(query: Mapping[str, str], allowed: Sequence[str]) -> None:
    """Raises `InvalidRequest` naming what is not known."""
    for name in query:
        if name not in allowed:
            raise InvalidRequest(
                f"unknown parameter {name[:64]!r}; {', '.join(allowed)} are allowed",
                param=name[:64],
            )


def _choice(query: Mapping[str, str], name: str, allowed: tuple[str, ...]) -> str:
    given = query.get(name, allowed[0])
    if given not in allowed:
        raise InvalidRequest(
            f"{name} is {given[:32]!r}; {' or '.join(allowed)} is allowed", param=name
        )
    return given


def _limit(text: str | None, default: int, most: int) -> int:
    if text is None:
        return default
    limit = int(text) if text.isdecimal() and len(text) < 10 else 0
    if not 1 <= limit <= most:
        raise InvalidRequest(
            f"limit is {text[:32]!r}; an integer from 1 to {most} is allowed", param="limit"
        )
    return limit


def _start(items: Sequence[Item], after: str | None) -> int:
    if after is None:
        return 0
    for position, item in enumerate(items):
        if item.id == after:
            return position + 1
    raise InvalidRequest(f"after is {after[:64]!r}, which is not in the list", param="after")
