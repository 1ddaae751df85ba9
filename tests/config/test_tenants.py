from __future__ import annotations

from pathlib import Path

import pytest

from octavo.config.server import ServerConfig
from octavo.config.tenants import TenantLimits, Tenants, load_tenants
from octavo.errors import ConfigError

EXAMPLE = """
default: {requests-per-second: 2}
tenants:
  alice:
    keys: [key-of-alice, another-key]
    weight: 4
    tokens-per-second: 500.5
    token-burst: 1000
    max-queued-requests: 8
    min-priority: -1
    max-priority: 5
    cache: shared
  bob: {}
"""


def _load(folder: Path, text: str, **options: object) -> Tenants:
    file = folder / "tenants.yaml"
    file.write_text(text)
    return load_tenants(ServerConfig(tenants=str(file), **options))  # type: ignore[arg-type]


def test_without_a_file_the_flags_hold_for_everyone() -> None:
    tenants = load_tenants(
        ServerConfig(
            requests_per_second=3, max_queued_requests_per_tenant=4, max_queued_tokens_per_tenant=5
        )
    )
    expected = TenantLimits(requests_per_second=3, max_queued_requests=4, max_queued_tokens=5)
    assert tenants.default == tenants.limits("anyone") == expected
    assert not tenants.named
    assert not tenants.keys


def test_entries_have_what_the_default_has_unless_they_differ(tmp_path: Path) -> None:
    tenants = _load(tmp_path, EXAMPLE, token_burst=77)
    assert tenants.default == TenantLimits(requests_per_second=2, token_burst=77)
    assert tenants.limits("bob") == tenants.limits("stranger") == tenants.default
    assert tenants.limits("alice") == TenantLimits(
        weight=4,
        requests_per_second=2,
        tokens_per_second=500.5,
        token_burst=1000,
        max_queued_requests=8,
        min_priority=-1,
        max_priority=5,
        cache="shared",
    )
    assert tenants.keys == {"key-of-alice": "alice", "another-key": "alice"}
    assert "key-of-alice" not in repr(tenants)


def test_a_flag_wins_over_the_files_default(tmp_path: Path) -> None:
    tenants = _load(tmp_path, EXAMPLE, requests_per_second=9)
    assert tenants.default.requests_per_second == 9


def test_an_empty_file_is_a_file_without_tenants(tmp_path: Path) -> None:
    assert _load(tmp_path, "") == Tenants()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tenant: {}", "'tenant' is not an option; did you mean tenants"),
        ("tenants: {a: {weigth: 1}}", "tenant a: 'weigth' is not an option; did you mean weight"),
        ("tenants: {a: {requests_per_second: 1}}", "did you mean requests-per-second"),
        ("default: {keys: [secret]}", "default: 'keys' is not an option"),
        ("tenants: {a: {weight: 0}}", "tenant a: weight is 0; a number from 0.001"),
        ("tenants: {a: {weight: heavy}}", "weight is 'heavy'"),
        ("tenants: {a: {token-burst: 0}}", "token-burst is 0; an integer from 1"),
        ("tenants: {a: {cache: mine}}", "one of own, shared"),
        ("tenants: {a: {min-priority: 2, max-priority: 1}}", "tenant a: min-priority is 2"),
        ("tenants: {a: {keys: [secret, secret]}}", "tenant a: one of its keys is given twice"),
        ("tenants: {a: {keys: [secret]}, b: {keys: [secret]}}", "tenant b: one of its keys"),
        ("tenants: {a: {keys: [flag-secret]}}", "tenant a: one of its keys is given twice"),
        ("tenants: {a: {keys: [1234]}}", "keys is not shown, for it is a secret"),
        ("tenants: {a: {keys: ['']}}", "keys is not shown"),
        ("tenants: {a: 3}", "tenant a: a mapping is allowed, not a int"),
        ("tenants: [a]", "a mapping is allowed"),
        ("tenants: {'a b': {}}", "'a b' is no tenant's name"),
        ("tenants: {'': {}}", "'' is no tenant's name"),
        ("tenants: {default: {}}", "'default' is no tenant's name"),
        ("tenants: {other: {}}", "'other' is no tenant's name"),
        ("tenants: {1: {}}", "'1' is no tenant's name"),
        (f"tenants: {{{'a' * 65}: {{}}}}", "is no tenant's name"),
        ("tenants: {a: {}, a: {}}", "the key 'a' is given twice in line 1"),
        ("tenants: {a: {keys: [secret}", "not YAML"),
        ("- a", "a mapping at the top is allowed, not a list"),
    ],
)
def test_a_bad_file_is_refused_by_name_and_no_key_is_told(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=r"tenants\.yaml: ") as caught:
        _load(tmp_path, text, api_key=("flag-secret",))
    assert message in str(caught.value)
    assert "secret," not in str(caught.value)
    assert "flag-secret" not in str(caught.value)
    assert "1234" not in str(caught.value)


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(ConfigError, match="--tenants /no/such/file: No such file"):
        load_tenants(ServerConfig(tenants="/no/such/file"))


@pytest.mark.parametrize("name", ["x tenant", "X-Tenant:", "é", "-x", "a" * 65])
def test_a_header_that_can_be_none(name: str) -> None:
    with pytest.raises(ConfigError, match="--tenant-header"):
        ServerConfig(tenant_header=name)
