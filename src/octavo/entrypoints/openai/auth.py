"""Who may call a route. Decided on the route object that matched, never on text rebuilt from a URL.

A route is closed unless it says that it `is_public`. Knows no route and no engine.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Awaitable, Callable, Sequence
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from octavo.config.server import ServerConfig
from octavo.errors import AuthenticationError, HeadersTooLarge, PermissionDenied

MAX_HEADER_LINES = 100
_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})


class KeyRing:
    """Knows keys by digest only. Without keys everyone may enter, as the tenant ''."""

    def __init__(self, keys: Sequence[str]) -> None:
        self._pepper = secrets.token_bytes(32)
        self._digests = [self._digest(key) for key in keys]

    def tenant(self, authorization: str | None) -> str:
        """A name for whoever holds the key. Raises `AuthenticationError`.

        Every key is compared, in constant time, whether or not one has matched.
        """
        if not self._digests:
            return ""
        scheme, _, key = (authorization or "").partition(" ")
        given = self._digest(key.strip())
        matches = [hmac.compare_digest(given, known) for known in self._digests]
        if not any(matches) or scheme.lower() != "bearer":
            raise AuthenticationError(
                "a valid API key is required: Authorization: Bearer KEY", code="invalid_api_key"
            )
        return given.hex()[:16]

    def _digest(self, key: str) -> bytes:
        return hmac.digest(self._pepper, key.encode("utf-8", "surrogateescape"), hashlib.sha256)


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


class Guard:
    """All checks on headers. Kept in the app's state as `guard`."""

    def __init__(self, config: ServerConfig) -> None:
        self._max_header_bytes = config.max_header_bytes
        self._keys = KeyRing(config.api_key)
        self._hosts = HostPolicy(config)

    def check(self, headers: Headers, *, is_public: bool) -> str:
        """The tenant. Raises `HeadersTooLarge`, `PermissionDenied` or `AuthenticationError`."""
        self._check_size(headers)
        self._hosts.check(headers)
        return "" if is_public else self._keys.tenant(headers.get("authorization"))

    def _check_size(self, headers: Headers) -> None:
        """The HTTP parser bounds what it must hold; a block that comes in one piece is longer."""
        num_bytes = sum(len(name) + len(value) for name, value in headers.raw)
        if num_bytes > self._max_header_bytes or len(headers.raw) > MAX_HEADER_LINES:
            raise HeadersTooLarge(
                f"{len(headers.raw)} headers of {num_bytes} bytes; at most {MAX_HEADER_LINES} of "
                f"{self._max_header_bytes} bytes together are allowed"
            )


class GuardedRoute(Route):
    """A route of one method that asks the app's guard before anything of the request is read."""

    def __init__(
        self,
        method: str,
        path: str,
        endpoint: Callable[[Request], Awaitable[Response]],
        is_public: bool,
    ) -> None:
        super().__init__(path, endpoint, methods=[method])
        self.methods = {method}  # and not HEAD beside GET
        self.is_public = is_public

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        guard: Guard = scope["app"].state.guard
        tenant = guard.check(Headers(scope=scope), is_public=self.is_public)
        scope.setdefault("state", {})["tenant"] = tenant
        await super().handle(scope, receive, send)
