"""Tenants, their limits and the server's bounds, as clients see them; deadlines and priority."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path

import pytest

from octavo.config.server import MAX_TIMEOUT_SECONDS, ServerConfig
from octavo.core.outputs import RequestTimes
from octavo.core.request import EngineRequest
from octavo.engine.streams import OutputStream
from tests.server.harness import (
    MAX_NUM_SEQS,
    ChatByteTokenizer,
    Json,
    Server,
    Setup,
    error_of,
    parse_events,
    run,
)

TENANTS = """
default: {max-queued-requests: 1}
tenants:
  alice: {keys: [key-a, key-a2], weight: 3, max-queued-requests: 2, min-priority: 0}
  bob: {keys: [key-b], cache: shared}
  carol: {keys: [key-c], cache: shared}
"""
A, A2, B, C, FRONT = (
    {"Authorization": f"Bearer {key}"} for key in ("key-a", "key-a2", "key-b", "key-c", "key-front")
)
ONE = {"prompt": "a", "max_tokens": 1}
PATH = "/v1/completions"


def _setup(folder: Path, **options: object) -> Setup:
    file = folder / "tenants.yaml"
    file.write_text(TENANTS)
    given = ServerConfig(tenants=str(file), api_key=("key-front",), **options)  # type: ignore[arg-type]
    return Setup(options=given)


def _record(server: Server) -> list[EngineRequest]:
    """What reaches the engine from now on."""
    seen: list[EngineRequest] = []
    submit = server.client.submit

    def note(request: EngineRequest) -> OutputStream:
        seen.append(request)
        return submit(request)

    server.client.submit = note  # type: ignore[method-assign]
    return seen


async def _hold(server: Server, number: int, body: Json = ONE, **headers: str) -> list[Json]:
    """So many requests more that are admitted and get no token until the brake opens."""
    before = len(server.context.open_requests)
    server.brake.close()
    tasks = [asyncio.create_task(server.post(PATH, body, **headers)) for _ in range(number)]
    while len(server.context.open_requests) < before + number:
        await asyncio.sleep(0.001)
    return tasks


async def _refusal(server: Server, status: int, code: str, body: Json = ONE, **headers: str) -> str:
    """The value of Retry-After."""
    before = _refused(server, code)
    response = await server.post(PATH, body, **headers)
    assert error_of(response, status)["code"] == code
    assert _refused(server, code) == before + 1
    return response.headers["retry-after"]


def _refused(server: Server, code: str) -> float:
    return server.metrics._make.registry.get_sample_value(  # type: ignore[return-value]
        "octavo:refused_requests_total", {"model_name": "fake", "engine": "0", "code": code}
    )


def test_a_key_of_the_file_gives_the_tenant_its_name_weight_and_limits(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        seen = _record(server)
        held = await _hold(server, 2, **A)
        assert await _refusal(server, 429, "tenant_queue_full", **A2)
        held += await _hold(server, 1, **B)
        server.brake.open()
        assert {(await task).status_code for task in held} == {200}
        assert [(one.tenant, one.tenant_weight) for one in seen] == [("alice", 3)] * 2 + [
            ("bob", 1)
        ]
        assert _refused(server, "tenant_queue_full") == 1

    run(scenario, _setup(tmp_path))


def test_wrong_keys_open_nothing_and_the_flags_key_has_the_default_limits(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        error_of(await server.post(PATH, ONE), 401)
        error_of(await server.post(PATH, ONE, Authorization="Bearer alice"), 401)
        held = await _hold(server, 1, **FRONT)
        await _refusal(server, 429, "tenant_queue_full", **FRONT)
        server.brake.open()
        await asyncio.gather(*held)

    run(scenario, _setup(tmp_path))


def test_the_header_names_the_tenant_only_where_it_was_allowed_to(tmp_path: Path) -> None:
    async def trusting(server: Server) -> None:
        seen = _record(server)
        for name in ("alice", "dave", "x:y@z-1_2.3"):
            response = await server.post(PATH, ONE, **FRONT, **{"X-Tenant": name})
            assert response.status_code == 200
        assert [one.tenant for one in seen] == ["alice", "dave", "x:y@z-1_2.3"]
        assert [one.tenant_weight for one in seen] == [3, 1, 1]

    async def deaf(server: Server) -> None:
        seen = _record(server)
        await server.post(PATH, ONE, **B, **{"X-Tenant": "alice"})
        await server.post(PATH, ONE, **FRONT, **{"X-Tenant": "alice"})
        assert seen[0].tenant == "bob"
        assert seen[1].tenant not in ("alice", "bob", "")

    run(trusting, _setup(tmp_path, tenant_header="X-Tenant"))
    run(deaf, _setup(tmp_path))


@pytest.mark.parametrize("name", ["", "a b", "a/b", "ä", "-a", "a" * 65, "a,b"])
def test_a_malformed_tenant_is_refused(name: str) -> None:
    async def scenario(server: Server) -> None:
        headers = {"X-Tenant": name.encode()}
        response = await server.http.post(PATH, json=ONE, headers=headers)  # type: ignore[arg-type]
        assert error_of(response)["code"] == "invalid_tenant"
        twice = [("X-Tenant", "a"), ("X-Tenant", "a")]
        response = await server.http.post(PATH, json=ONE, headers=twice)
        assert "2 times" in error_of(response)["message"]
        ok = await server.post(PATH, ONE, **{"X-Tenant": "a" * 64})
        assert ok.status_code == 200

    run(scenario, Setup(options=ServerConfig(tenant_header="x-tenant")))


def test_who_has_a_key_of_his_own_cannot_be_somebody_else(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        response = await server.post(PATH, ONE, **B, **{"X-Tenant": "alice"})
        assert error_of(response, 403)["code"] == "tenant_not_allowed"
        response = await server.post(PATH, ONE, **B, **{"X-Tenant": "bob"})
        assert response.status_code == 200

    run(scenario, _setup(tmp_path, tenant_header="X-Tenant"))


def test_cached_prompts_are_shared_only_among_those_who_share(tmp_path: Path) -> None:
    async def cached(server: Server, key: dict[str, str]) -> int:
        body = {"prompt": "a secret prompt of some length", "max_tokens": 1}
        usage = (await server.post(PATH, body, **key)).json()["usage"]
        return int(usage["prompt_tokens_details"]["cached_tokens"])

    async def scenario(server: Server) -> None:
        assert await cached(server, A) == 0
        assert await cached(server, A2) > 0
        assert await cached(server, B) == 0
        assert await cached(server, C) > 0
        assert await cached(server, FRONT) == 0

    run(scenario, _setup(tmp_path))


def test_invented_tenants_share_one_label() -> None:
    async def scenario(server: Server) -> None:
        for number in range(80):
            await server.post(PATH, ONE, **{"X-Tenant": f"t{number}"})
        text = server.metrics.text().decode()
        assert 'tenant="t0"' in text
        assert 'tenant="other"' in text
        assert 'tenant="t79"' not in text

    run(scenario, Setup(options=ServerConfig(tenant_header="X-Tenant")))


def test_rates_at_the_burst_and_one_beyond() -> None:
    async def requests(server: Server) -> None:
        for _ in range(3):
            assert (await server.post(PATH, ONE)).status_code == 200
        for path in (PATH, "/v1/chat/completions"):
            response = await server.post(path, b"not even read")
            error = error_of(response, 429)
            assert (error["type"], error["code"]) == ("rate_limit_error", "rate_limit_requests")
            assert 1 <= int(response.headers["retry-after"]) <= 1000
        assert (await server.http.get("/v1/models")).status_code == 200

    async def tokens(server: Server) -> None:
        ids = {"prompt": [1] * 30, "max_tokens": 10, "ignore_eos": True}
        assert (await server.post(PATH, ids)).status_code == 200
        await _refusal(server, 429, "rate_limit_tokens", {**ids, "max_tokens": 11})
        assert (await server.post(PATH, ids)).status_code == 200
        await _refusal(server, 429, "rate_limit_tokens")

    slow = {"requests_per_second": 0.001, "request_burst": 3}
    run(requests, Setup(options=ServerConfig(**slow)))  # type: ignore[arg-type]
    run(tokens, Setup(options=ServerConfig(tokens_per_second=0.001, token_burst=80)))


def test_tokens_that_were_not_used_are_given_back() -> None:
    async def scenario(server: Server) -> None:
        for _ in range(5):
            body = {"prompt": "stop", "max_tokens": 60}
            usage = (await server.post(PATH, body)).json()["usage"]
            assert usage["total_tokens"] == 7
            error_of(await server.post(PATH, {"prompt": [10**6], "max_tokens": 60}), 400)
        # Of the 100 there are 65 left.
        await _refusal(server, 429, "rate_limit_tokens", {"prompt": "stop", "max_tokens": 99})

    options = ServerConfig(tokens_per_second=0.001, token_burst=100)
    run(scenario, Setup(options=options, scripts={b"stop": [ord("x")]}))


def test_queued_tokens_at_the_limit_and_one_beyond() -> None:
    async def scenario(server: Server) -> None:
        held = await _hold(server, 1, {"prompt": [1] * 60, "max_tokens": 1})
        await _refusal(server, 429, "queue_tokens_full", {"prompt": [1] * 41, "max_tokens": 1})
        held += await _hold(server, 1, {"prompt": [1] * 40, "max_tokens": 1})
        await _refusal(server, 429, "queue_tokens_full")
        server.brake.open()
        await asyncio.gather(*held)
        assert (await server.post(PATH, {"prompt": [1] * 100, "max_tokens": 1})).status_code == 200

    run(scenario, Setup(options=ServerConfig(max_num_queued_tokens=100)))


def test_queued_tokens_of_one_tenant() -> None:
    async def scenario(server: Server) -> None:
        body = {"prompt": [1] * 60, "max_tokens": 1}
        held = await _hold(server, 1, body, **{"X-Tenant": "a"})
        code = "tenant_queue_tokens_full"
        await _refusal(server, 429, code, body, **{"X-Tenant": "a"})
        held += await _hold(server, 1, body, **{"X-Tenant": "b"})
        server.brake.open()
        await asyncio.gather(*held)

    options = ServerConfig(max_queued_tokens_per_tenant=100, tenant_header="X-Tenant")
    run(scenario, Setup(options=options))


def _make_slow(server: Server) -> None:
    """As if every sequence held its slot for 80 seconds."""
    times = RequestTimes(prefill_seconds=80.0, num_generation_tokens=1)
    for _ in range(1000):
        server.context.open_requests.admission.estimates.finished(times)


def test_a_deadline_that_cannot_be_met_is_refused_with_503() -> None:
    async def scenario(server: Server) -> None:
        _make_slow(server)
        held = await _hold(server, MAX_NUM_SEQS)
        body = {**ONE, "timeout": 5}
        assert int(await _refusal(server, 503, "deadline_unreachable", body)) >= 9
        headers = {"X-Request-Timeout": "5"}
        await _refusal(server, 503, "deadline_unreachable", ONE, **headers)
        await _refusal(server, 503, "deadline_unreachable", {**ONE, "timeout": 99}, **headers)
        held += await _hold(server, 1, {**ONE, "timeout": 1000})
        server.brake.open()
        assert {(await task).status_code for task in held} == {200}

    run(scenario)


def test_the_servers_timeout_holds_for_who_gives_none() -> None:
    async def scenario(server: Server) -> None:
        _make_slow(server)
        held = await _hold(server, MAX_NUM_SEQS)
        await _refusal(server, 503, "deadline_unreachable")
        held += await _hold(server, 1, {**ONE, "timeout": 1000})
        server.brake.open()
        assert {(await task).status_code for task in held} == {200}

    run(scenario, Setup(options=ServerConfig(request_timeout=5)))


def test_a_bound_on_the_predicted_wait() -> None:
    async def scenario(server: Server) -> None:
        _make_slow(server)
        held = await _hold(server, MAX_NUM_SEQS)
        await _refusal(server, 429, "queue_wait_too_long")
        server.brake.open()
        await asyncio.gather(*held)

    run(scenario, Setup(options=ServerConfig(max_queue_seconds=9)))


def test_deadline_and_priority_reach_the_engine(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        seen = _record(server)
        before = time.time()
        await server.post(PATH, {**ONE, "timeout": 50.5}, **A)
        await server.post(PATH, {**ONE, "timeout": 50}, **A, **{"X-Request-Timeout": "40"})
        await server.post(PATH, ONE, **A)
        await server.post(
            "/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}]}, **A
        )
        for request, seconds in zip(seen, (50.5, 40, 600, 600), strict=True):
            assert request.deadline is not None
            assert 0 <= request.deadline - before - seconds < 20

    run(scenario, _setup(tmp_path))


@pytest.mark.parametrize("seconds", [0, -1, MAX_TIMEOUT_SECONDS + 1, "soon", True, [1]])
def test_timeouts_out_of_range(seconds: Json) -> None:
    async def scenario(server: Server) -> None:
        error = error_of(await server.post(PATH, {**ONE, "timeout": seconds}))
        assert error["param"] == "timeout"
        if not isinstance(seconds, list | bool):
            headers = {"X-Request-Timeout": str(seconds)}
            error = error_of(await server.post(PATH, ONE, **headers))
            assert "X-Request-Timeout" in error["message"]
        ok = await server.post(PATH, {**ONE, "timeout": MAX_TIMEOUT_SECONDS})
        assert ok.status_code == 200

    run(scenario)


@pytest.mark.parametrize("text", ["nan", "inf", "", "1s", "1e9"])
def test_header_timeouts_that_are_none(text: str) -> None:
    async def scenario(server: Server) -> None:
        error_of(await server.post(PATH, ONE, **{"X-Request-Timeout": text}))

    run(scenario)


def test_priority_is_refused_where_nothing_would_come_of_it() -> None:
    async def scenario(server: Server) -> None:
        assert (await server.post(PATH, {**ONE, "priority": 0})).status_code == 200
        error = error_of(await server.post(PATH, {**ONE, "priority": 1}))
        assert (error["param"], error["code"]) == ("priority", "unsupported_parameter")
        assert "--scheduling-policy priority" in error["message"]

    run(scenario)


def test_priority_within_the_tenants_bounds(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        seen = _record(server)
        await server.post(PATH, {**ONE, "priority": 7}, **A)
        await server.post(PATH, {**ONE, "priority": -7}, **B)
        await server.post(PATH, ONE, **A)
        assert [one.priority for one in seen] == [7, -7, 0]
        error = error_of(await server.post(PATH, {**ONE, "priority": -1}, **A))
        assert error["param"] == "priority"
        assert "-1; from 0 to" in error["message"]
        error_of(await server.post(PATH, {**ONE, "priority": 2**31}, **B))

    setup = _setup(tmp_path)
    setup.takes_priority = True
    run(scenario, setup)


class _SlowTokenizer(ChatByteTokenizer):
    """Tokenises when it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.may_go_on = threading.Event()

    def encode(
        self, text: str, *, add_special_tokens: bool, parse_special: bool = False
    ) -> list[int]:
        if text == "slow":
            assert self.may_go_on.wait(20)
        return super().encode(
            text, add_special_tokens=add_special_tokens, parse_special=parse_special
        )


def test_a_request_counts_from_the_decision_on_not_after_tokenising() -> None:
    """vllm#58192: a burst was rendered first and refused seconds later."""
    tokenizer = _SlowTokenizer()
    # Large enough to be tokenised beside the event loop.
    slow = {"prompt": "slow", "max_tokens": 1, "metadata": {"x": "y" * 20_000}}

    async def scenario(server: Server) -> None:
        held = [asyncio.create_task(server.post(PATH, slow)) for _ in range(MAX_NUM_SEQS)]
        while len(server.context.open_requests) < MAX_NUM_SEQS:
            await asyncio.sleep(0.001)
        for _ in range(5):
            await _refusal(server, 429, "queue_full", slow)
            await _refusal(server, 429, "queue_full", b"not even read")
        assert tokenizer.num_encoded_chars == 0
        tokenizer.may_go_on.set()
        assert {(await task).status_code for task in held} == {200}

    run(scenario, Setup(options=ServerConfig(max_num_queued_reqs=0), tokenizer=tokenizer))


def test_d12_ten_times_more_than_fits_is_refused_and_leaves_nothing_behind() -> None:
    """Every answer is either whole or a 429 that says when to come back; the books agree."""
    num_requests = 10 * (MAX_NUM_SEQS + 4)

    async def scenario(server: Server) -> None:
        body = {"prompt": "overload", "max_tokens": 6, "ignore_eos": True}
        server.brake.close()
        burst = [asyncio.create_task(server.post(PATH, body)) for _ in range(num_requests)]
        while not len(burst) - sum(task.done() for task in burst) <= MAX_NUM_SEQS + 4:
            await asyncio.sleep(0.001)
        assert len(server.context.open_requests) == MAX_NUM_SEQS + 4
        server.brake.open()
        answers = [await task for task in burst]
        whole = [answer for answer in answers if answer.status_code == 200]
        refused = [answer for answer in answers if answer.status_code != 200]
        assert len(whole) == MAX_NUM_SEQS + 4
        assert {answer.json()["usage"]["completion_tokens"] for answer in whole} == {6}
        for answer in refused:
            assert error_of(answer, 429)["code"] == "queue_full"
            assert int(answer.headers["retry-after"]) >= 1
        assert _refused(server, "queue_full") == len(refused)
        admission = server.context.open_requests.admission
        assert (admission.num_sequences, admission.queued.all.num_tokens) == (0, 0)
        await server.check_canary()

    run(scenario, Setup(options=ServerConfig(max_num_queued_reqs=4)))


def test_l9_clients_that_give_up_leave_the_queue_without_any_prefill() -> None:
    async def scenario(server: Server) -> None:
        held = await _hold(server, MAX_NUM_SEQS)
        impatient = await _hold(server, 12, {"prompt": "impatient", "max_tokens": 5})
        for task in impatient:
            task.cancel()
        await asyncio.gather(*impatient, return_exceptions=True)
        server.brake.open()
        await asyncio.gather(*held)
        await server.wait_idle()
        computed = {
            bytes(item.sequence.token_ids[1:10])
            for step in server.runner.steps
            for item in step.sequences
        }
        assert b"impatient" not in computed
        admission = server.context.open_requests.admission
        assert (admission.num_sequences, admission.queued.all.num_tokens) == (0, 0)

    run(scenario)


def test_l9_a_deadline_ends_what_waits_without_any_prefill_and_what_runs() -> None:
    waits = {"prompt": "impatient", "max_tokens": 5, "timeout": 100}
    runs = {"prompt": "running", "max_tokens": 100, "ignore_eos": True, "timeout": 100}

    async def scenario(server: Server) -> None:
        held = await _hold(server, 2, runs)
        held += await _hold(server, 1, {**runs, "stream": True})
        server.brake.release(3)
        while len(server.runner.steps) < 4:
            await asyncio.sleep(0.001)
        held += await _hold(server, MAX_NUM_SEQS - 3, {**ONE, "timeout": 10_000})
        late = await _hold(server, 2, waits)
        late += await _hold(server, 1, {**waits, "stream": True})
        server.clock.ahead_seconds = 1000
        server.brake.open()
        for answer in [await task for task in (held[0], held[1], late[0], late[1])]:
            error = error_of(answer, 504)
            assert (error["type"], error["code"]) == ("timeout_error", "deadline_exceeded")
        for answer in (await held[2], await late[2]):
            *_, last = parse_events(answer.text)
            assert last["error"]["code"] == "deadline_exceeded"
            assert "[DONE]" not in answer.text
        assert {(await task).status_code for task in held[3:]} == {200}
        await server.wait_idle()
        computed = {
            bytes(item.sequence.token_ids[1:10])
            for step in server.runner.steps
            for item in step.sequences
        }
        assert b"running" in {prompt[:7] for prompt in computed}
        assert b"impatient" not in computed
        assert server.num_finished("error") == 6

    run(scenario)
