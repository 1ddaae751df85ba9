from __future__ import annotations

from types import MappingProxyType

from octavo.config.tenants import TenantLimits, Tenants
from octavo.scheduler.admission.tenant_table import TenantTable

LIMITED = TenantLimits(requests_per_second=1, request_burst=1)


def _table(max_unnamed: int = 2) -> TenantTable:
    return TenantTable(Tenants(LIMITED, MappingProxyType({"alice": LIMITED})), max_unnamed)


def _spend(table: TenantTable, name: str) -> None:
    bucket = table.get(name, 0.0).requests
    assert bucket is not None
    bucket.take(1, 0.0)


def _has_spent(table: TenantTable, name: str) -> bool:
    bucket = table.get(name, 0.0).requests
    assert bucket is not None
    return bucket.level(0.0) == 0


def test_invented_tenants_are_forgotten_the_longest_idle_first() -> None:
    table = _table()
    for name in ("a", "b"):
        _spend(table, name)
    table.get("a", 0.0)
    table.get("c", 0.0)
    assert len(table) == 2
    assert _has_spent(table, "a")
    assert not _has_spent(table, "b")


def test_tenants_with_an_entry_or_an_open_request_are_not_forgotten() -> None:
    table = _table()
    _spend(table, "alice")
    _spend(table, "a")
    table.get("a", 0.0).num_open = 1
    for name in "bcdefgh":
        table.get(name, 0.0)
    assert len(table) == 3
    assert _has_spent(table, "alice")
    assert _has_spent(table, "a")


def test_buckets_come_with_ten_seconds_of_burst() -> None:
    table = TenantTable(Tenants(TenantLimits(requests_per_second=0.01, tokens_per_second=7)))
    entry = table.get("", 0.0)
    assert entry.requests is not None
    assert entry.tokens is not None
    assert (entry.requests.burst, entry.tokens.burst) == (1, 70)
    unlimited = TenantTable(Tenants()).get("", 0.0)
    assert unlimited.requests is unlimited.tokens is None
