"""What tests of files and batches say to a server, and how they wait for a batch."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterable
from typing import Any

import httpx

from tests.server.harness import TIMEOUT_SECONDS, Server

Json = Any
COMPLETIONS = "/v1/completions"
OVER = {"completed", "failed", "expired", "cancelled"}


def line(custom_id: str, prompt: str = "p", *, url: str = COMPLETIONS, **fields: Json) -> Json:
    body = {"prompt": f"{prompt} {custom_id}", "max_tokens": 2, "seed": 1, **fields}
    return {"custom_id": custom_id, "method": "POST", "url": url, "body": body}


def jsonl(lines: Iterable[Json]) -> bytes:
    return b"".join(json.dumps(one).encode() + b"\n" for one in lines)


def records(text: str) -> list[Json]:
    return [json.loads(one) for one in text.splitlines()]


async def upload(
    server: Server, data: bytes, *, filename: str = "in.jsonl", **fields: str
) -> httpx.Response:
    headers = {key: fields.pop(key) for key in ("Authorization",) if key in fields}
    return await server.http.post(
        "/v1/files",
        files={"file": (filename, data)},
        data={"purpose": "batch", **fields},
        headers=headers,
    )


async def create(server: Server, data: bytes, **fields: Json) -> Json:
    """The new batch of a new file."""
    file = (await upload(server, data)).json()
    body = {
        "input_file_id": file["id"],
        "endpoint": COMPLETIONS,
        "completion_window": "24h",
        **fields,
    }
    response = await server.post("/v1/batches", body)
    assert response.status_code == 200, response.text
    return response.json()


async def until(server: Server, batch_id: str, *statuses: str) -> Json:
    """The batch when it has one of the statuses, by default one of an end."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while True:
        response = await server.http.get(f"/v1/batches/{batch_id}")
        assert response.status_code == 200, response.text
        batch = response.json()
        if batch["status"] in (statuses or OVER):
            return batch
        assert time.monotonic() < deadline, batch
        await asyncio.sleep(0.005)


async def content(server: Server, file_id: str) -> list[Json]:
    response = await server.http.get(f"/v1/files/{file_id}/content")
    assert response.status_code == 200, response.text
    return records(response.text)
