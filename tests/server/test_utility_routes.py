from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from octavo import __version__
from octavo.config.engine import EngineConfig
from octavo.config.server import ServerConfig
from tests.fakes import BOS
from tests.server.harness import CONTEXT, TEMPLATE, Json, Server, Setup, error_of, run


def test_models_are_listed_with_their_aliases() -> None:
    async def scenario(server: Server) -> None:
        listed = (await server.http.get("/v1/models")).json()
        assert listed["object"] == "list"
        assert [card["id"] for card in listed["data"]] == ["fake", "alias"]
        assert listed["data"][1] == {
            "id": "alias",
            "object": "model",
            "created": 1,
            "owned_by": "octavo",
            "root": "fake",
            "parent": None,
            "max_model_len": CONTEXT,
            "permission": [],
        }
        one = await server.http.get("/v1/models/alias")
        assert one.json() == listed["data"][1]
        error_of(await server.http.get("/v1/models/org/other"), 404)

    run(scenario)


def test_version_and_liveness() -> None:
    async def scenario(server: Server) -> None:
        assert (await server.http.get("/version")).json() == {"version": __version__}
        for path in ("/health", "/ping"):
            assert (await server.http.get(path)).status_code == 200

    run(scenario)


def test_load_counts_the_requests_that_are_being_answered() -> None:
    async def scenario(server: Server) -> None:
        assert (await server.http.get("/load")).json() == {"server_load": 0}
        server.brake.close()
        running = [asyncio.create_task(server.complete("abc", max_tokens=3)) for _ in range(2)]
        while (await server.http.get("/load")).json() != {"server_load": 2}:
            await asyncio.sleep(0.01)
        server.brake.open()
        await asyncio.gather(*running)
        assert (await server.http.get("/load")).json() == {"server_load": 0}

    run(scenario)


def test_server_info_shows_options_but_no_keys_and_places(tmp_path: Path) -> None:
    tenants = tmp_path / "tenants.yaml"
    tenants.write_text("tenants: {}")
    options = ServerConfig(
        api_key=("sk-hidden",), tenants=str(tenants), tenant_header="X-Who", max_n=7
    )

    async def scenario(server: Server) -> None:
        response = await server.http.get("/server_info")
        info = response.json()
        assert info["version"] == __version__
        assert info["server_config"]["max_n"] == 7
        assert info["engine_config"]["max_num_seqs"] == EngineConfig().max_num_seqs
        for hidden in ("sk-hidden", str(tmp_path), "X-Who", "/models", "/swap"):
            assert hidden not in response.text
        error_of(await server.http.get("/server_info", headers={"Authorization": ""}), 401)

    run(scenario, Setup(options=options, headers={"Authorization": "Bearer sk-hidden"}))


def test_the_steps_of_the_engine_are_told() -> None:
    async def scenario(server: Server) -> None:
        assert (await server.http.get("/steps")).json() == {"num_steps": 0, "steps": []}
        await server.complete("abc", max_tokens=3)
        await server.wait_idle()
        told = (await server.http.get("/steps")).json()
        assert told["num_steps"] == len(told["steps"]) == 3
        (load, seconds, num_arrived), *_ = told["steps"]
        assert load == [4, 1, 1, 0, 10, 4]  # with the token that begins a text
        assert seconds > 0
        assert num_arrived == 0

    run(scenario)


def test_health_is_tied_to_the_engine() -> None:
    async def scenario(server: Server) -> None:
        await server.client.shutdown()
        error = error_of(await server.http.get("/health"), 503)
        assert error["type"] == "service_unavailable_error"
        response = await server.complete("a")
        error_of(response, 503)
        assert "retry-after" in response.headers

    run(scenario)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/nothing", 404), ("GET", "/v1/completions", 405), ("DELETE", "/v1/models", 405)],
)
def test_what_the_router_refuses_has_the_shape_of_an_error(
    method: str, path: str, status: int
) -> None:
    async def scenario(server: Server) -> None:
        error_of(await server.http.request(method, path), status)

    run(scenario)


def test_tokens_there_and_back() -> None:
    async def scenario(server: Server) -> None:
        there = (await server.post("/tokenize", {"prompt": "hé"})).json()
        ids = [BOS, *"hé".encode()]
        assert there == {
            "count": 4,
            "max_model_len": CONTEXT,
            "tokens": ids,
            "token_strs": None,
        }
        plain = await server.post("/tokenize", {"prompt": "hé", "add_special_tokens": False})
        assert plain.json()["tokens"] == ids[1:]
        shown = await server.post("/tokenize", {"prompt": "hi", "return_token_strs": True})
        assert shown.json()["token_strs"] == ["", "h", "i"]
        back = await server.post("/detokenize", {"tokens": ids[1:]})
        assert back.json() == {"prompt": "hé"}

    run(scenario)


def test_clients_may_tokenize_and_render_as_the_server_does() -> None:
    async def scenario(server: Server) -> None:
        assert (await server.http.get("/tokenizer_info")).json() == {
            "bos_token": "<s>",
            "eos_token": "</s>",
            "add_bos_token": True,
            "model_max_length": CONTEXT,
            "chat_template": TEMPLATE,
        }

    run(scenario)


def test_messages_are_tokenized_with_the_template() -> None:
    async def scenario(server: Server) -> None:
        messages = [{"role": "user", "content": "hi"}]
        answer = (await server.post("/tokenize", {"messages": messages})).json()
        usage = (await server.chat("hi", max_tokens=1)).json()["usage"]
        assert answer["count"] == usage["prompt_tokens"]

    run(scenario)


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/tokenize", {}, "prompt"),
        ("/tokenize", {"prompt": "a", "messages": []}, "prompt"),
        ("/tokenize", {"prompt": 1}, "prompt"),
        ("/detokenize", {}, "tokens"),
        ("/detokenize", {"tokens": [-1]}, "tokens"),
        ("/detokenize", {"tokens": [10**6]}, "tokens"),
        ("/abort_requests", {"request_ids": "x"}, "request_ids"),
    ],
)
def test_bad_bodies_are_refused_by_name(path: str, body: Json, param: str) -> None:
    async def scenario(server: Server) -> None:
        assert error_of(await server.post(path, body))["param"] == param

    run(scenario)


def test_metrics_agree_with_what_clients_counted() -> None:
    async def scenario(server: Server) -> None:
        answers = await asyncio.gather(
            *(server.complete(f"prompt {i}", max_tokens=1 + i % 5, n=1 + i % 2) for i in range(12))
        )
        usages = [answer.json()["usage"] for answer in answers]
        response = await server.http.get("/metrics")
        assert response.headers["content-type"].startswith("text/plain")
        assert "vllm:num_requests_running" in response.text
        values = server.values()
        num_sequences = sum(1 + i % 2 for i in range(12))
        assert values["vllm:request_success_total.length"] == num_sequences
        assert values["vllm:prompt_tokens_total"] == sum(u["prompt_tokens"] for u in usages)
        assert values["vllm:generation_tokens_total"] == sum(u["completion_tokens"] for u in usages)
        assert values["vllm:time_to_first_token_seconds_count"] == num_sequences
        assert values["vllm:num_requests_running"] == 0
        assert values["vllm:kv_cache_usage_perc"] == 0
        cached = sum(u["prompt_tokens_details"]["cached_tokens"] for u in usages)
        assert values["vllm:prefix_cache_hits_total"] >= cached

    run(scenario, Setup())


def test_after_a_reset_nothing_is_cached() -> None:
    async def cached_tokens(server: Server) -> int:
        usage = (await server.complete("a" * 40)).json()["usage"]
        return int(usage["prompt_tokens_details"]["cached_tokens"])

    async def scenario(server: Server) -> None:
        assert await cached_tokens(server) == 0
        assert await cached_tokens(server) > 0
        response = await server.post("/reset_prefix_cache", None)
        assert (response.status_code, response.content) == (200, b"")
        assert await cached_tokens(server) == 0

    run(scenario)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/tokenize", {"prompt": "a"}),
        ("/detokenize", {"tokens": [65]}),
        ("/v1/responses/input_tokens", {"input": "a"}),
        ("/v1/chat/completions/render", {"messages": [{"role": "user", "content": "a"}]}),
        ("/v1/messages/count_tokens", {"messages": [{"role": "user", "content": "a"}]}),
    ],
)
def test_what_only_counts_tokens_counts_among_the_requests_of_its_tenant(
    path: str, body: Json
) -> None:
    async def scenario(server: Server) -> None:
        for _ in range(2):
            assert (await server.post(path, body)).status_code == 200
        refused = await server.post(path, body)
        assert refused.status_code == 429
        error = refused.json()["error"]
        assert (error["code"], refused.headers["retry-after"]) == ("rate_limit_requests", "10")
        error = error_of(await server.complete("a", max_tokens=1), 429)
        assert error["code"] == "rate_limit_requests", "they share one bucket"
        free = await server.post("/abort_requests", {"request_ids": ["none"]})
        assert free.status_code == 200, "what ends requests is not held up"

    run(scenario, Setup(options=ServerConfig(requests_per_second=0.1, request_burst=2)))
