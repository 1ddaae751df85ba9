"""Who may call a route. Decided on the route object that matched, never on text rebuilt from a URL.

A route is closed unless it says that it `is_public`. Knows no route and no engine.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from octavo.config.server import ServerConfig
from octavo.config.tenants import TENANT_NAME, Tenants
from octavo.entrypoints.openai.http.errors import ErrorShape
from octavo.errors import (
    AuthenticationError,
    HeadersTooLarge,
    InvalidRequest,
    PermissionDenied,
)

KEY_HEADER = "x-api-key"
ERROR_SHAPE = "error_shape"
"""In the state of a request: how its protocol says what is wrong."""

_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})


class KeyRing:
    """Knows keys by digest only: those of tenants by name, and others. Without any key everyone
    may enter, as the tenant ''. The names of keys without a tenant last as long as `pepper`."""

    def __init__(
        self,
        keys: Iterable[str],
        tenants: Mapping[str, str] | None = None,
        pepper: bytes | None = None,
    ) -> None:
        self._pepper = pepper or secrets.token_bytes(32)
        nameless = {digest: digest.hex()[:16] for digest in map(self._digest, keys)}
        named = {self._digest(key): name for key, name in (tenants or {}).items()}
        self._tenants = nameless | named

    def tenant(self, authorization: str | None) -> str:
        """A name for whoever holds the key. Raises `AuthenticationError`.

        Nobody can choose a digest, for the pepper is secret: how long a search for one takes tells
        nothing of the keys.
        """
        if not self._tenants:
            return ""
        scheme, _, key = (authorization or "").partition(" ")
        tenant = self._tenants.get(self._digest(key.strip()))
        if tenant is None or scheme.lower() != "bearer":
            raise AuthenticationError(
                "a valid API key is required: Authorization: Bearer KEY, or x-api-key: KEY",
                code="invalid_api_key",
            )
        return tenant

    def _digest(self, key: str) -> bytes:
        return hmac.digest(self._pepper, key.encode("utf-8", "surrogateescape"), hashlib.sha256)


class TenantHeader:
    """Believes a header that names the tenant, if there is one of that name. Tenants with keys of
    their own cannot be somebody else."""

    def __init__(self, name: str, tenants: Tenants) -> None:
        self._name = name
        self._holders = frozenset(tenants.keys.values())

    def tenant(self, headers: Headers, holder: str) -> str:
        """Who sends the request: the holder of its key, or whom that names.

        Raises `InvalidRequest` or `PermissionDenied`.
        """
        given = headers.getlist(self._name) if self._name else []
        if not given:
            return holder
        if len(given) > 1 or not TENANT_NAME.fullmatch(given[0]):
            shown = f"{given[0][:64]!r}" if len(given) == 1 else f"given {len(given)} times"
            raise InvalidRequest(
                f"the header {self._name} is {shown}; one name of 1 to 64 letters, digits and "
                "._:@- is allowed",
                code="invalid_tenant",
            )
        if holder in self._holders and given[0] != holder:
            raise PermissionDenied(
                f"the API key belongs to a tenant that is not {given[0]!r}",
                code="tenant_not_allowed",
            )
        return given[0]


class HostPolicy:
    """Keeps web pages from reaching a local server: by a rebound name, or from a foreign origin."""

    def __init__(self, config: ServerConfig) -> None:
        names = frozenset(config.allowed_hosts)
        if not names and config.host in _LOOPBACK_NAMES:
            names = _LOOPBACK_NAMES
        self._hosts = names
        self._origins = frozenset(config.allowed_origins)

    def check(self, headers: Headers) -> None:
        """Raises `PermissionDenied`."""
        host = headers.get("host", "")
        if self._hosts and _host_name(host) not in self._hosts:
            raise PermissionDenied(
                f"the host {host[:64]!r} is not one of this server's; see --allowed-hosts",
                code="host_not_allowed",
            )
        origin = headers.get("origin")
        if origin is None or self._origins & {origin, "*"}:
            return
        if not self._hosts or urlsplit(origin).netloc != host:
            raise PermissionDenied(
                f"pages of {origin[:64]!r} may not call this server; see --allowed-origins",
                code="origin_not_allowed",
            )


def _host_name(host: str) -> str:
    """`host` without port and brackets; '' if malformed."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _authorization(headers: Headers) -> str | None:
    """Clients of Anthropic's API have their own header for a key."""
    given, key = headers.get("authorization"), headers.get(KEY_HEADER)
    return f"Bearer {key}" if given is None and key is not None else given


class Guard:
    """All checks on headers. Kept in the app's state as `guard`."""

    def __init__(self, config: ServerConfig, tenants: Tenants, pepper: bytes | None = None) -> None:
        self._max_header_bytes = config.max_header_bytes
        self._max_header_lines = config.max_header_lines
        self._keys = KeyRing(config.api_key, tenants.keys, pepper)
        self._tenant_header = TenantHeader(config.tenant_header, tenants)
        self._hosts = HostPolicy(config)

    def check(self, headers: Headers, *, is_public: bool) -> str:
        """The tenant. Raises `HeadersTooLarge`, `PermissionDenied`, `AuthenticationError` or, for
        a malformed name of a tenant, `InvalidRequest`."""
        self._check_size(headers)
        self._hosts.check(headers)
        if is_public:
            return ""
        holder = self._keys.tenant(_authorization(headers))
        return self._tenant_header.tenant(headers, holder)

    def _check_size(self, headers: Headers) -> None:
        """The HTTP parser bounds what it must hold; a block that comes in one piece is longer."""
        num_bytes = sum(len(name) + len(value) for name, value in headers.raw)
        if num_bytes > self._max_header_bytes or len(headers.raw) > self._max_header_lines:
            raise HeadersTooLarge(
                f"{len(headers.raw)} headers of {num_bytes} bytes; at most "
                f"{self._max_header_lines} of {self._max_header_bytes} bytes together are allowed"
            )


class GuardedRoute(Route):
    """A route of one method that asks the app's guard before anything of the request is read."""

    def __init__(
        self,
        method: str,
        path: str,
        endpoint: Callable[[Request], Awaitable[Response]],
        is_public: bool,
        error_shape: ErrorShape,
    ) -> None:
        super().__init__(path, endpoint, methods=[method])
        self._error_shape = error_shape
        self.methods = {method}  # and not HEAD beside GET
        self.is_public = is_public

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope.setdefault("state", {})[ERROR_SHAPE] = self._error_shape
        guard: Guard = scope["app"].state.guard
        tenant = guard.check(Headers(scope=scope), is_public=self.is_public)
        scope["state"]["tenant"] = tenant
        await super().handle(scope, receive, send)
