"""Every route is closed without a key unless it is listed as public; web pages stay outside."""

from __future__ import annotations

import pytest
from starlette.applications import Starlette
from starlette.datastructures import Headers

from octavo.config.server import ServerConfig
from octavo.entrypoints.openai.http.auth import GuardedRoute, HostPolicy, KeyRing
from octavo.errors import AuthenticationError, PermissionDenied
from tests.server.harness import Server, Setup, error_of, run

KEYS = ("first-key", "second-key")
LOCKED = Setup(options=ServerConfig(api_key=KEYS))
PUBLIC = {"/health", "/ping"}


def _routes(app: Starlette) -> list[GuardedRoute]:
    routes = list(app.router.routes)
    assert all(isinstance(route, GuardedRoute) for route in routes), routes
    return [route for route in routes if isinstance(route, GuardedRoute)]


def test_only_liveness_is_public() -> None:
    async def scenario(server: Server) -> None:
        assert {route.path for route in _routes(server.app) if route.is_public} == PUBLIC

    run(scenario, LOCKED)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": "Bearer first-ke"},
        {"Authorization": "Bearer first-keyy"},
        {"Authorization": "Bearer "},
        {"Authorization": "first-key"},
        {"Authorization": "Basic first-key"},
        {"X-Api-Key": "first-ke"},
        {"X-Api-Key": "first-key", "Authorization": "Bearer wrong"},
        {"Authorization": "Bearer first-key second-key"},
    ],
    ids=range(10),
)
def test_no_route_opens_without_the_right_key(headers: dict[str, str]) -> None:
    async def scenario(server: Server) -> None:
        for route in _routes(server.app):
            for method in route.methods or ():
                path = route.path.replace("{model:path}", "fake")
                response = await server.http.request(method, path, headers=headers)
                if route.is_public:
                    assert response.status_code == 200
                else:
                    assert response.status_code == 401
                    assert response.json()["error"]["type"] == "authentication_error"
                    assert response.headers["www-authenticate"] == "Bearer"

    run(scenario, LOCKED)


@pytest.mark.parametrize(
    "path",
    [
        "//v1/models",
        "/v1/models/",
        "/V1/models",
        "/v1/%6dodels",
        "/v1/../v1/models",
        "/health/../v1/models",
        "/health/v1/models",
        "/v1/models?x=/health",
        "/v1/models#/health",
        "/v1/models;/health",
        "/metrics/",
        "/%2e%2e/metrics",
    ],
)
def test_spellings_of_paths_do_not_get_around_the_key(path: str) -> None:
    async def scenario(server: Server) -> None:
        response = await server.http.get(path)
        assert response.status_code in (307, 401, 404), response.text
        assert "fake" not in response.text

    run(scenario, LOCKED)


@pytest.mark.parametrize("key", KEYS)
def test_every_key_opens(key: str) -> None:
    async def scenario(server: Server) -> None:
        for scheme in ("Bearer", "bearer"):
            headers = {"Authorization": f"{scheme} {key}"}
            assert (await server.http.get("/v1/models", headers=headers)).status_code == 200

    run(scenario, LOCKED)


def test_tenants_do_not_share_cached_prompts() -> None:
    async def scenario(server: Server) -> None:
        cached = []
        for key in (KEYS[0], KEYS[1], KEYS[0]):
            body = {"prompt": "a secret prompt of some length", "max_tokens": 1}
            headers = {"Authorization": f"Bearer {key}"}
            usage = (await server.post("/v1/completions", body, **headers)).json()["usage"]
            cached.append(usage["prompt_tokens_details"]["cached_tokens"])
        assert cached[0] == cached[1] == 0
        assert cached[2] > 0

    run(scenario, LOCKED)


def test_keys_of_any_bytes_are_compared() -> None:
    ring = KeyRing(("schlüssel",))
    assert ring.tenant("Bearer schlüssel")
    with pytest.raises(AuthenticationError):
        ring.tenant("Bearer schl\udcffssel")


@pytest.mark.parametrize(
    "host",
    ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:80", "[::2]", "[x", ""],
)
def test_a_local_server_answers_to_local_names_only(host: str) -> None:
    with pytest.raises(PermissionDenied, match="host"):
        HostPolicy(ServerConfig()).check(Headers({"host": host}))


@pytest.mark.parametrize("host", ["localhost:8000", "127.0.0.1:8000", "[::1]:8000", "LOCALHOST"])
def test_local_names(host: str) -> None:
    HostPolicy(ServerConfig()).check(Headers({"host": host}))
    HostPolicy(ServerConfig()).check(Headers({"host": host, "origin": f"http://{host}"}))


def test_a_public_server_answers_to_any_name_or_the_allowed_ones() -> None:
    HostPolicy(ServerConfig(host="0.0.0.0")).check(Headers({"host": "any.example"}))
    named = HostPolicy(ServerConfig(host="0.0.0.0", allowed_hosts=("my.example",)))
    named.check(Headers({"host": "my.example:80"}))
    with pytest.raises(PermissionDenied):
        named.check(Headers({"host": "any.example"}))


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost:1"])
def test_foreign_pages_may_not_call(origin: str) -> None:
    async def scenario(server: Server) -> None:
        response = await server.post("/v1/completions", {"prompt": "a"}, Origin=origin)
        assert error_of(response, 403)["code"] == "origin_not_allowed"
        assert "access-control-allow-origin" not in response.headers

    run(scenario)


def test_an_allowed_origin_gets_cors_headers() -> None:
    origin = "https://app.example"

    async def scenario(server: Server) -> None:
        preflight = await server.http.options(
            "/v1/completions",
            headers={"Origin": origin, "Access-Control-Request-Method": "POST"},
        )
        assert preflight.headers["access-control-allow-origin"] == origin
        response = await server.complete("a", max_tokens=1)
        assert response.status_code == 200
        response = await server.post(
            "/v1/completions", {"prompt": "a", "max_tokens": 1}, Origin=origin
        )
        assert response.headers["access-control-allow-origin"] == origin

    run(scenario, Setup(options=ServerConfig(allowed_origins=(origin,))))
