"""Tenants: who they are, by which keys, and what each may use. Read from a YAML file, and checked.

    default: {requests-per-second: 2}
    tenants:
      alice: {keys: [sk-1], weight: 4, tokens-per-second: 500, max-queued-requests: 8}

Knows no HTTP, no clock and no bucket. Keys are secrets: no message repeats one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from octavo.config.options import check, option, options_of, read_value, unknown_option
from octavo.config.server import ServerConfig
from octavo.errors import ConfigError

TENANT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@-]{0,63}")
RESERVED_NAMES = frozenset({"default", "other"})
BURST_SECONDS = 10
LEAST_PRIORITY, MOST_PRIORITY = -(2**31), 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantLimits:
    """What a tenant may use. Absent rates and bounds do not bind."""

    weight: float = option(
        1.0, "Share of the engine relative to other tenants.", minimum=0.001, maximum=1000
    )
    requests_per_second: float | None = option(None, "Requests a second.", minimum=0.001)
    request_burst: int | None = option(
        None, "Requests at once after a pause. Default: of 10 seconds.", minimum=1
    )
    tokens_per_second: float | None = option(
        None, "Tokens a second, of prompts and answers.", minimum=0.001
    )
    token_burst: int | None = option(
        None, "Tokens at once after a pause. Default: of 10 seconds.", minimum=1
    )
    max_queued_requests: int | None = option(
        None, "Requests that may wait for their first token.", minimum=1
    )
    max_queued_tokens: int | None = option(
        None, "Prompt tokens of requests that wait for their first token.", minimum=1
    )
    max_stored_bytes: int | None = option(
        None, "Bytes of its stored files together.", metavar="BYTES", minimum=1
    )
    min_priority: int = option(
        LEAST_PRIORITY,
        "The most urgent priority it may ask for.",
        minimum=LEAST_PRIORITY,
        maximum=MOST_PRIORITY,
    )
    max_priority: int = option(
        MOST_PRIORITY,
        "The least urgent priority it may ask for.",
        minimum=LEAST_PRIORITY,
        maximum=MOST_PRIORITY,
    )
    cache: str = option(
        "own", "Whether cached prompts are its own, or shared.", choices=("own", "shared")
    )

    def __post_init__(self) -> None:
        check(self)
        if self.min_priority > self.max_priority:
            raise ConfigError(
                f"min-priority is {self.min_priority}; at most max-priority "
                f"({self.max_priority}) is allowed"
            )

    @property
    def num_burst_requests(self) -> float:
        return self.request_burst or max(1.0, (self.requests_per_second or 0) * BURST_SECONDS)

    @property
    def num_burst_tokens(self) -> float:
        return self.token_burst or max(1.0, (self.tokens_per_second or 0) * BURST_SECONDS)


@dataclass(frozen=True, slots=True)
class Tenants:
    """`default` holds for whoever is not among `named`. `keys` maps keys to names of tenants."""

    default: TenantLimits = TenantLimits()
    named: Mapping[str, TenantLimits] = field(default_factory=lambda: MappingProxyType({}))
    keys: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), repr=False)

    def limits(self, name: str) -> TenantLimits:
        return self.named.get(name, self.default)


@dataclass(frozen=True, slots=True, kw_only=True)
class _TenantKeys:
    keys: tuple[str, ...] = option((), "API keys of the tenant.", is_secret=True)


def _read_file(file: Path) -> dict[object, object]:
    from octavo.config.yaml_file import yaml_mapping  # 20 ms of every start that needs none

    return yaml_mapping(file, "--tenants")


def load_tenants(options: ServerConfig) -> Tenants:
    """The tenants of the server's file, and its limits for all others. Raises ConfigError.

    A flag wins over the file's `default`, and that is what a tenant has unless its entry differs.
    """
    file = Path(options.tenants)
    content = _read_file(file) if options.tenants else {}
    _refuse_unknown(content, ("default", "tenants"), f"{file}: ")
    values = _entry(content.get("default"), (TenantLimits,), f"{file}: default: ")
    values |= {name: value for name, value in _flags(options).items() if value is not None}
    default = _limits(values, f"{file}: default: " if options.tenants else "")
    named: dict[str, TenantLimits] = {}
    keys: dict[str, str] = {}
    for name, entry in _mapping(content.get("tenants"), f"{file}: tenants").items():
        origin = f"{file}: tenant {_checked_name(name, file)}: "
        own = _entry(entry, (TenantLimits, _TenantKeys), origin)
        for key in own.pop("keys", ()):  # type: ignore[attr-defined]
            if key in keys or key in options.api_key:
                raise ConfigError(f"{origin}one of its keys is given twice; a key has one holder")
            keys[key] = str(name)
        named[str(name)] = _limits(values | own, origin)
    return Tenants(default, MappingProxyType(named), MappingProxyType(keys))


def _flags(options: ServerConfig) -> dict[str, object]:
    """The default tenant's limits, as flags give them."""
    return {
        "requests_per_second": options.requests_per_second,
        "request_burst": options.request_burst,
        "tokens_per_second": options.tokens_per_second,
        "token_burst": options.token_burst,
        "max_queued_requests": options.max_queued_requests_per_tenant,
        "max_queued_tokens": options.max_queued_tokens_per_tenant,
    }


def _limits(values: Mapping[str, object], origin: str) -> TenantLimits:
    try:
        return TenantLimits(**values)  # type: ignore[arg-type]
    except ConfigError as error:
        raise ConfigError(f"{origin}{error}") from None


def _entry(content: object, declared: tuple[type, ...], origin: str) -> dict[str, object]:
    """The values of one tenant by field name."""
    known = {item.key: item for config in declared for item in options_of(config)}
    mapping = _mapping(content, origin.removesuffix(": "))
    _refuse_unknown(mapping, known, origin)
    return {
        known[str(key)].name: read_value(known[str(key)], value, origin=f"{origin}{key}")
        for key, value in mapping.items()
    }


def _refuse_unknown(mapping: Mapping[object, object], known: Iterable[str], origin: str) -> None:
    for key in mapping:
        if key not in set(known):
            raise unknown_option(str(key)[:64], known, origin=origin)


def _mapping(content: object, origin: str) -> Mapping[object, object]:
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigError(f"{origin}: a mapping is allowed, not a {type(content).__name__}")
    return content


def _checked_name(name: object, file: Path) -> str:
    if not isinstance(name, str) or not TENANT_NAME.fullmatch(name) or name in RESERVED_NAMES:
        raise ConfigError(
            f"{file}: {str(name)[:64]!r} is no tenant's name; 1 to 64 letters, digits and ._:@- "
            f"are allowed, but not {' or '.join(sorted(RESERVED_NAMES))}"
        )
    return name
