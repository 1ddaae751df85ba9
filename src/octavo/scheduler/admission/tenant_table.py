"""What each tenant has used and holds now. Bounded, whatever names clients send."""

from __future__ import annotations

from collections import OrderedDict

from octavo.config.tenants import TenantLimits, Tenants
from octavo.scheduler.admission.token_bucket import TokenBucket

MAX_UNNAMED_TENANTS = 1024
"""Of those without an entry in the tenants' file so many are remembered, the latest."""


class Tenant:
    """The account of one tenant. Queued is what was admitted and has no first token yet."""

    __slots__ = ("limits", "name", "num_open", "num_queued_requests", "num_queued_tokens",
                 "requests", "tokens")  # fmt: skip

    def __init__(self, name: str, limits: TenantLimits, now: float) -> None:
        self.name = name
        self.limits = limits
        self.num_open = 0
        self.num_queued_requests = 0
        self.num_queued_tokens = 0
        self.requests = _bucket(limits.requests_per_second, limits.num_burst_requests, now)
        self.tokens = _bucket(limits.tokens_per_second, limits.num_burst_tokens, now)


def _bucket(rate: float | None, burst: float, now: float) -> TokenBucket | None:
    return None if rate is None else TokenBucket(rate, burst, now)


class TenantTable:
    """Accounts by name. Tenants with an entry keep theirs for good; of the others the one that was
    idle for longest is forgotten, and comes back with full buckets."""

    def __init__(self, tenants: Tenants, max_unnamed: int = MAX_UNNAMED_TENANTS) -> None:
        self._tenants = tenants
        self._max_unnamed = max_unnamed
        self._named: dict[str, Tenant] = {}
        self._unnamed: OrderedDict[str, Tenant] = OrderedDict()

    def __len__(self) -> int:
        return len(self._named) + len(self._unnamed)

    def get(self, name: str, now: float) -> Tenant:
        if name in self._tenants.named:
            if name not in self._named:
                self._named[name] = Tenant(name, self._tenants.named[name], now)
            return self._named[name]
        if name not in self._unnamed:
            self._forget_one()
            self._unnamed[name] = Tenant(name, self._tenants.default, now)
        self._unnamed.move_to_end(name)
        return self._unnamed[name]

    def _forget_one(self) -> None:
        """If there are enough. Those with open requests stay: the server's bounds bound them."""
        if len(self._unnamed) < self._max_unnamed:
            return
        idle = next((name for name, entry in self._unnamed.items() if not entry.num_open), None)
        if idle is not None:
            del self._unnamed[idle]
