"""Batches over HTTP: every line answered once, however the batch is stopped and begun again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from octavo.config.server import ServerConfig
from octavo.entrypoints.openai.batches.batch_store import BatchStore
from octavo.entrypoints.openai.batches.objects import BatchRecord
from octavo.entrypoints.openai.intake.open_requests import ENOUGH_PATIENT_TOKENS
from tests.server.batch_client import (
    Json,
    content,
    create,
    jsonl,
    line,
    until,
    upload,
)
from tests.server.harness import MAX_NUM_SEQS, Server, Setup, error_of, run


def with_folder(folder: Path, **options: Json) -> Setup:
    return Setup(options=ServerConfig(batch_dir=str(folder), **options))


def lines(count: int, **fields: Json) -> list[Json]:
    return [line(f"line-{number}", **fields) for number in range(count)]


def by_id(found: Iterable[Json]) -> dict[str, Json]:
    found = list(found)
    named = {one["custom_id"]: one for one in found}
    assert len(named) == len(found), "a line was answered twice"
    return named


def test_a_batch_answers_each_line_as_the_route_does(tmp_path: Path) -> None:
    asked = [
        *lines(40),
        line("bad", max_tokens=-1),
        line("streamed", stream=True),
        line("lost", model="other"),
    ]

    async def scenario(server: Server) -> None:
        batch = await create(server, jsonl(asked), metadata={"a": "b"})
        assert batch["status"] == "validating"
        assert batch["object"] == "batch"
        batch = await until(server, batch["id"])
        assert batch["status"] == "completed"
        assert batch["request_counts"] == {"total": 43, "completed": 40, "failed": 3}
        assert batch["metadata"] == {"a": "b"}
        assert batch["created_at"] <= batch["in_progress_at"] <= batch["completed_at"]
        done = by_id(await content(server, batch["output_file_id"]))
        assert set(done) == {f"line-{number}" for number in range(40)}
        for custom_id in ("line-0", "line-39"):
            record = done[custom_id]
            assert record["error"] is None
            assert record["response"]["status_code"] == 200
            again = await server.complete(f"p {custom_id}", max_tokens=2, seed=1)
            assert record["response"]["body"]["choices"] == again.json()["choices"]
        failed = by_id(await content(server, batch["error_file_id"]))
        params = {name: one["response"]["body"]["error"]["param"] for name, one in failed.items()}
        assert params == {"bad": "max_tokens", "streamed": "stream", "lost": "model"}
        assert [failed[n]["response"]["status_code"] for n in ("bad", "lost")] == [400, 404]
        usages = [one["response"]["body"]["usage"] for one in done.values()]
        assert batch["usage"]["input_tokens"] == sum(one["prompt_tokens"] for one in usages)
        assert batch["usage"]["output_tokens"] == 80

    run(scenario, with_folder(tmp_path))


def test_a_batch_goes_on_after_a_restart_and_answers_nothing_twice(tmp_path: Path) -> None:
    asked = lines(30, max_tokens=4)
    seen: list[str] = []
    batch_ids: list[str] = []

    async def first(server: Server) -> None:
        server.brake.close()
        batch = await create(server, jsonl(asked))
        batch_ids.append(batch["id"])
        while (await until(server, batch["id"], "validating", "in_progress"))["request_counts"][
            "completed"
        ] < 5:
            server.brake.release()
            await asyncio.sleep(0.001)

    async def second(server: Server) -> None:
        batch = await until(server, batch_ids[0])
        assert batch["status"] == "completed"
        assert batch["request_counts"] == {"total": 30, "completed": 30, "failed": 0}
        done = by_id(await content(server, batch["output_file_id"]))
        assert set(done) == {one["custom_id"] for one in asked}
        seen.extend(done)
        assert batch["usage"]["output_tokens"] == 120
        num_submitted = server.values()["vllm:request_params_n_sum"]
        assert num_submitted <= 25

    run(first, with_folder(tmp_path))
    outputs = [
        path
        for path in (tmp_path / "files").iterdir()
        if b'"custom_id":"line-' in path.read_bytes() and b"batch_req_" in path.read_bytes()
    ]
    with outputs[0].open("ab") as file:
        file.write(b'{"id":"batch_req_half a li')  # as a process that was killed leaves it
    run(second, with_folder(tmp_path))
    assert len(seen) == 30


def test_what_is_over_stays_listed_and_readable_after_a_restart(tmp_path: Path) -> None:
    found: list[Json] = []

    async def first(server: Server) -> None:
        for count in (1, 2, 3):
            batch = await create(server, jsonl(lines(count)))
            found.append(await until(server, batch["id"]))

    async def second(server: Server) -> None:
        listed = (await server.http.get("/v1/batches?limit=2")).json()
        assert listed["has_more"] is True
        rest = (await server.http.get(f"/v1/batches?after={listed['last_id']}")).json()
        assert rest["has_more"] is False
        both = sorted(listed["data"] + rest["data"], key=lambda one: one["id"])
        assert both == sorted(found, key=lambda one: one["id"])
        for batch in found:
            assert (
                len(await content(server, batch["output_file_id"]))
                == (batch["request_counts"]["total"])
            )

    run(first, with_folder(tmp_path))
    run(second, with_folder(tmp_path))


def test_nobody_sees_an_end_that_is_not_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(server: Server) -> None:
        is_ending, may_save = asyncio.Event(), asyncio.Event()

        async def save(store: BatchStore, record: BatchRecord) -> None:
            if not record.batch.is_open:
                is_ending.set()
                await may_save.wait()
            await to_disk(store, record)

        to_disk = BatchStore.save
        monkeypatch.setattr(BatchStore, "save", save)
        batch = await create(server, jsonl(lines(1)))
        await is_ending.wait()
        seen = (await server.http.get(f"/v1/batches/{batch['id']}")).json()
        assert (seen["status"], seen["completed_at"]) == ("finalizing", None)
        may_save.set()
        await until(server, batch["id"])

    run(scenario, with_folder(tmp_path))


def test_a_cancelled_batch_keeps_what_is_done_and_says_what_is_not(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        server.brake.close()
        batch = await create(server, jsonl(lines(40, max_tokens=100)))
        await until(server, batch["id"], "in_progress")
        while server.client.stats().num_running == 0:
            server.brake.release()
            await asyncio.sleep(0.001)
        response = await server.post(f"/v1/batches/{batch['id']}/cancel", {})
        assert response.json()["status"] in ("cancelling", "cancelled")
        server.brake.open()
        batch = await until(server, batch["id"])
        assert batch["status"] == "cancelled"
        assert batch["request_counts"] == {"total": 40, "completed": 0, "failed": 40}
        failed = await content(server, batch["error_file_id"])
        assert {one["error"]["code"] for one in failed} == {"batch_cancelled"}
        assert {one["response"] for one in failed} == {None}
        again = await server.post(f"/v1/batches/{batch['id']}/cancel", {})
        assert again.json()["status"] == "cancelled"

    run(scenario, with_folder(tmp_path))


def test_a_batch_that_is_over_cannot_be_cancelled(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        batch = await create(server, jsonl(lines(1)))
        await until(server, batch["id"])
        response = await server.post(f"/v1/batches/{batch['id']}/cancel", {})
        assert error_of(response)["code"] == "batch_is_over"

    run(scenario, with_folder(tmp_path))


def test_a_batch_expires_with_what_is_done(tmp_path: Path) -> None:
    batch_ids: list[str] = []

    async def first(server: Server) -> None:
        server.brake.close()
        batch = await create(server, jsonl(lines(20, max_tokens=3)), completion_window="1m")
        batch_ids.append(batch["id"])
        while (await until(server, batch["id"], "validating", "in_progress"))["request_counts"][
            "completed"
        ] < 3:
            server.brake.release()
            await asyncio.sleep(0.001)

    async def later(server: Server) -> None:
        batch = await until(server, batch_ids[0])
        assert batch["status"] == "expired"
        counts = batch["request_counts"]
        assert counts["completed"] >= 3
        assert counts["completed"] + counts["failed"] == counts["total"] == 20
        failed = await content(server, batch["error_file_id"])
        assert {one["error"]["code"] for one in failed} == {"batch_expired"}
        assert len(await content(server, batch["output_file_id"])) == counts["completed"]

    run(first, with_folder(tmp_path))
    record = next((tmp_path / "batches").iterdir())
    saved = json.loads(record.read_bytes())
    saved["batch"]["expires_at"] = saved["batch"]["created_at"] - 1
    record.write_text(json.dumps(saved))
    run(later, with_folder(tmp_path))


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        (b"", "empty_file"),
        (b"\n \n", "empty_file"),
        (b"{]\n", "invalid_line"),
        (b"[" * 5_000 + b"\n", "invalid_line"),
        (b"\xff\xfe\n", "invalid_line"),
        (jsonl([{"custom_id": "a"}]), "invalid_line"),
        (jsonl([{**line("a"), "more": 1}]), "invalid_line"),
        (jsonl([{**line("a"), "method": "GET"}]), "bad_method"),
        (jsonl([line("a", url="/v1/chat/completions")]), "mismatched_url"),
        (jsonl([line("")]), "invalid_custom_id"),
        (jsonl([line("c" * 513)]), "invalid_custom_id"),
        (jsonl([line("a"), line("b"), line("a")]), "duplicate_custom_id"),
        (jsonl([line("a", prompt="p" * 10_000)]), "line_too_long"),
    ],
)
def test_a_file_that_is_no_batch_fails_with_its_line(tmp_path: Path, bad: bytes, code: str) -> None:
    async def scenario(server: Server) -> None:
        batch = await until(server, (await create(server, bad))["id"])
        assert batch["status"] == "failed"
        errors = batch["errors"]["data"]
        assert errors[0]["code"] == code
        if code != "empty_file":
            assert errors[0]["line"] == bad.count(b"\n")
        assert batch["output_file_id"] is None
        await server.check_canary()

    run(scenario, with_folder(tmp_path, max_body_bytes=1000))


def test_a_body_beyond_the_limit_is_refused_as_over_http(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        data = jsonl([line("a", prompt="p" * 1000), line("b")])
        batch = await until(server, (await create(server, data))["id"])
        failed = await content(server, batch["error_file_id"])
        assert [one["response"]["status_code"] for one in failed] == [413]
        assert batch["request_counts"] == {"total": 2, "completed": 1, "failed": 1}

    run(scenario, with_folder(tmp_path, max_body_bytes=1000))


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"endpoint": "/v1/nothing"}, "endpoint"),
        ({"completion_window": "0h"}, "completion_window"),
        ({"completion_window": "31d"}, "completion_window"),
        ({"metadata": {"k" * 65: "v"}}, "metadata"),
        ({"metadata": {str(number): "v" for number in range(17)}}, "metadata"),
        ({"output_expires_after": {"anchor": "created_at", "seconds": 1}}, "output_expires_after"),
        ({"unknown": 1}, "unknown"),
    ],
)
def test_a_bad_batch_is_refused_at_once(
    tmp_path: Path, fields: dict[str, Json], param: str
) -> None:
    async def scenario(server: Server) -> None:
        file = (await upload(server, jsonl(lines(1)))).json()
        body = {"input_file_id": file["id"], "endpoint": "/v1/completions"}
        body = {**body, "completion_window": "24h", **fields}
        assert error_of(await server.post("/v1/batches", body))["param"] == param

    run(scenario, with_folder(tmp_path))


def test_a_batch_of_an_unknown_file_is_not_found(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        for name in ("file-" + "0" * 32, "../../etc/passwd", "file-\0"):
            body = {
                "input_file_id": name,
                "endpoint": "/v1/completions",
                "completion_window": "24h",
            }
            error = error_of(await server.post("/v1/batches", body), 404)
            assert error["param"] == "input_file_id"

    run(scenario, with_folder(tmp_path))


def test_who_has_another_key_sees_nothing(tmp_path: Path) -> None:
    """Not after a restart either, where the holder still sees it."""
    alice, bob = {"Authorization": "Bearer alice"}, {"Authorization": "Bearer bob"}
    found: list[str] = []

    async def first(server: Server) -> None:
        file = await upload(server, jsonl(lines(1)), **alice)
        body = {
            "input_file_id": file.json()["id"],
            "endpoint": "/v1/completions",
            "completion_window": "24h",
        }
        error_of(await server.post("/v1/batches", body, **bob), 404)
        batch = (await server.post("/v1/batches", body, **alice)).json()
        found.extend((file.json()["id"], batch["id"]))
        await check(server)

    async def check(server: Server) -> None:
        file_id, batch_id = found
        paths = (f"/v1/files/{file_id}", f"/v1/files/{file_id}/content", f"/v1/batches/{batch_id}")
        for path in paths:
            assert (await server.http.get(path, headers=alice)).status_code == 200
            error_of(await server.http.get(path, headers=bob), 404)
            error_of(await server.http.get(path), 401)
        error_of(await server.http.delete(f"/v1/files/{file_id}", headers=bob), 404)
        error_of(await server.post(f"/v1/batches/{batch_id}/cancel", {}, **bob), 404)
        for path in ("/v1/files", "/v1/batches"):
            assert (await server.http.get(path, headers=bob)).json()["data"] == []
            assert (await server.http.get(path, headers=alice)).json()["data"]

    run(first, with_folder(tmp_path, api_key=("alice", "bob")))
    run(check, with_folder(tmp_path, api_key=("bob", "alice", "carol")))


def test_lines_wait_for_the_rate_of_their_tenant_and_lose_nothing(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        batch = await until(server, (await create(server, jsonl(lines(4))))["id"])
        assert batch["request_counts"]["completed"] == 4
        assert batch["completed_at"] > batch["in_progress_at"]

    run(scenario, with_folder(tmp_path, requests_per_second=1.0, request_burst=3))


def test_clients_find_a_slot_beside_a_batch(tmp_path: Path) -> None:
    """A batch leaves a slot free, gets few while others are there, and is not refused for it."""

    async def scenario(server: Server) -> None:
        server.brake.close()
        batch = await create(server, jsonl(lines(40, max_tokens=30)))
        while server.client.stats().num_running < MAX_NUM_SEQS - 1:
            server.brake.release()
            await asyncio.sleep(0.001)
        server.brake.open()
        crowd = [server.complete(f"client {n}", max_tokens=40) for n in range(16)]
        answers = await asyncio.gather(*crowd)
        assert {one.status_code for one in answers} == {200}
        batch = await until(server, batch["id"])
        assert batch["request_counts"] == {"total": 40, "completed": 40, "failed": 0}
        assert server.values().get("octavo:refused_requests_total", 0) == 0

    run(scenario, with_folder(tmp_path))


def test_a_client_stands_behind_few_prompts_of_a_batch_that_has_just_begun(
    tmp_path: Path,
) -> None:
    """A batch does not fill its slots at once: what is yet to be read of it is bounded."""
    prompt, num_lines = "x" * 230, 20

    async def scenario(server: Server) -> None:
        server.brake.close()
        asked = [line(str(number), prompt, max_tokens=8) for number in range(num_lines)]
        batch = await create(server, jsonl(asked))
        queued = server.context.open_requests.admission.queued
        while queued.all.num_tokens < ENOUGH_PATIENT_TOKENS:
            await asyncio.sleep(0.001)
        most = num_unread = queued.all.num_tokens
        while server.client.stats().num_running < MAX_NUM_SEQS - 1:
            assert num_unread < ENOUGH_PATIENT_TOKENS + len(prompt) + 10
            server.brake.release()
            await asyncio.sleep(0.001)
            num_unread = queued.all.num_tokens
            most = max(most, num_unread)
        server.brake.open()
        assert most < ENOUGH_PATIENT_TOKENS + len(prompt) + 10
        batch = await until(server, batch["id"])
        assert batch["request_counts"]["completed"] == num_lines

    run(scenario, with_folder(tmp_path))


def test_a_line_of_more_sequences_than_a_batch_may_have_runs_alone(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        asked = [line("a"), line("wide", n=MAX_NUM_SEQS, seed=1), line("b")]
        batch = await until(server, (await create(server, jsonl(asked)))["id"])
        assert batch["request_counts"]["completed"] == 3

    run(scenario, with_folder(tmp_path))


def test_results_that_find_no_room_end_the_batch_with_what_is_done(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        batch = await until(server, (await create(server, jsonl(lines(60))))["id"])
        assert batch["status"] == "failed"
        assert batch["errors"]["data"][0]["code"] == "storage_full"
        done = await content(server, batch["output_file_id"])
        assert 0 < len(done) == batch["request_counts"]["completed"] < 60

    setup = with_folder(tmp_path, batch_store_bytes=len(jsonl(lines(60))) + 5000)
    run(scenario, setup)


def test_a_step_that_fails_is_an_error_of_its_lines_alone(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        batch = await until(server, (await create(server, jsonl(lines(12))))["id"])
        assert batch["status"] == "completed"
        counts = batch["request_counts"]
        assert counts["completed"] + counts["failed"] == 12
        failed = await content(server, batch["error_file_id"])
        assert failed
        assert {one["response"]["status_code"] for one in failed} == {500}
        assert "secret" not in json.dumps(failed)

    run(scenario, replace(with_folder(tmp_path), fail_on=(1,)))


def test_without_a_folder_the_routes_say_that_they_are_off() -> None:
    async def scenario(server: Server) -> None:
        for path in ("/v1/files", "/v1/batches", "/v1/files/x", "/v1/batches/x"):
            error = error_of(await server.http.get(path), 404)
            assert error["code"] == "batches_are_off"
            assert "--batch-dir" in error["message"]
        error_of(await upload(server, b"x"), 404)

    run(scenario)
