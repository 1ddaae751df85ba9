"""Responses that may be asked for again, or gone on from: in memory, bounded, each tenant's own.

Knows no HTTP and no engine.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec
from starlette.responses import Response

from octavo.entrypoints.openai.responses_api.objects import ResponseObject
from octavo.entrypoints.openai.responses_api.request import Item
from octavo.errors import NotFound


@dataclass(slots=True, eq=False)
class StoredResponse:
    """`inputs` are all items that it answered, those of earlier responses first, of which there are
    `num_earlier`. `work` is what still makes it, in the background."""

    tenant: str
    response: ResponseObject
    inputs: Sequence[Item]
    num_earlier: int
    work: asyncio.Task[Response] | None = None
    num_bytes: int = field(default=0)

    @property
    def items(self) -> list[Item]:
        """The conversation up to here."""
        return [*self.inputs, *(msgspec.to_builtins(item) for item in self.response.output)]


class ResponseStore:
    """At most `max_bytes` of JSON of all tenants, and `max_count` responses of each. The oldest of
    the tenant that has too many goes, or of the one that holds most."""

    def __init__(self, max_bytes: int, max_count: int) -> None:
        self._max_bytes = max_bytes
        self._max_count = max_count
        self._by_tenant: dict[str, OrderedDict[str, StoredResponse]] = {}
        self._num_bytes: dict[str, int] = {}

    @property
    def is_on(self) -> bool:
        return self._max_bytes > 0 and self._max_count > 0

    @property
    def num_bytes(self) -> int:
        return sum(self._num_bytes.values())

    def get(self, tenant: str, response_id: str, param: str = "response_id") -> StoredResponse:
        """Raises `NotFound`, whether there is no such response or it is somebody else's."""
        stored = self._of(tenant).get(response_id)
        if stored is None:
            raise NotFound(
                f"there is no stored response {response_id[:64]!r}",
                param=param,
                code=f"{param.removesuffix('_id')}_not_found",
            )
        return stored

    def holds(self, stored: StoredResponse) -> bool:
        return self._of(stored.tenant).get(stored.response.id) is stored

    def put(self, stored: StoredResponse) -> None:
        """Also again, when it has changed. What alone is larger than all is not kept."""
        self._drop(stored)
        stored.num_bytes = len(msgspec.json.encode((stored.response, stored.inputs)))
        if stored.num_bytes > self._max_bytes:
            return
        kept = self._by_tenant.setdefault(stored.tenant, OrderedDict())
        kept[stored.response.id] = stored
        self._num_bytes[stored.tenant] = self._num_bytes.get(stored.tenant, 0) + stored.num_bytes
        while len(kept) > self._max_count:
            self._drop(_oldest(kept, stored))
        while self.num_bytes > self._max_bytes:
            holder = max(self._num_bytes, key=self._num_bytes.__getitem__)
            self._drop(_oldest(self._by_tenant[holder], stored))

    def delete(self, stored: StoredResponse) -> None:
        """Idempotent."""
        self._drop(stored)

    def _of(self, tenant: str) -> OrderedDict[str, StoredResponse]:
        return self._by_tenant.get(tenant, OrderedDict())

    def _drop(self, stored: StoredResponse) -> None:
        kept = self._of(stored.tenant)
        if kept.pop(stored.response.id, None) is None:
            return
        self._num_bytes[stored.tenant] -= stored.num_bytes
        if not kept:
            del self._by_tenant[stored.tenant], self._num_bytes[stored.tenant]


def _oldest(kept: OrderedDict[str, StoredResponse], newest: StoredResponse) -> StoredResponse:
    """Of those that are made already, if there is one: the others are asked for soon."""
    others = (one for one in kept.values() if one is not newest and one.work is None)
    return next(others, next(iter(kept.values())))
