"""`/v1/files`: what is stored is given back, bounded, its owner's alone, and never a path."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from octavo.config.server import ServerConfig
from octavo.config.tenants import Tenants
from octavo.entrypoints.openai.batches.service import BatchService
from octavo.errors import ConfigError
from tests.server.batch_client import Json, create, jsonl, line, until, upload
from tests.server.harness import Server, Setup, error_of, run

BOUNDARY = "edge"
FORM = f"multipart/form-data; boundary={BOUNDARY}"


def with_folder(folder: Path, **options: Json) -> Setup:
    return Setup(options=ServerConfig(batch_dir=str(folder), **options))


def part(name: str, value: str, more: str = "") -> str:
    return f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"{more}\r\n\r\n{value}\r\n'


async def post_form(server: Server, text: str, content_type: str = FORM) -> httpx.Response:
    headers = {"Content-Type": content_type}
    return await server.http.post("/v1/files", content=text.encode(), headers=headers)


def stored(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "files").iterdir())


def test_a_file_comes_back_byte_by_byte(tmp_path: Path) -> None:
    data = bytes(range(256)) * 9000 + b"\r\n--edge\r\n--"

    async def scenario(server: Server) -> None:
        file = (await upload(server, data)).json()
        assert file == {
            "id": file["id"],
            "object": "file",
            "bytes": len(data),
            "created_at": file["created_at"],
            "expires_at": None,
            "filename": "in.jsonl",
            "purpose": "batch",
            "status": "processed",
        }
        path = f"/v1/files/{file['id']}"
        assert (await server.http.get(path)).json() == file
        found = await server.http.get(f"{path}/content")
        assert found.content == data
        assert found.headers["content-type"] == "application/octet-stream"
        deleted = await server.http.delete(path)
        assert deleted.json() == {"id": file["id"], "object": "file", "deleted": True}
        for gone in (path, f"{path}/content"):
            error_of(await server.http.get(gone), 404)
        assert stored(tmp_path) == []

    run(scenario, with_folder(tmp_path))


def test_files_are_listed_in_pages(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        made = [(await upload(server, b"x")).json()["id"] for _ in range(5)]
        seen: list[str] = []
        query = "?limit=2&order=asc&purpose=batch"
        while True:
            after = f"&after={seen[-1]}" if seen else ""
            page = (await server.http.get(f"/v1/files{query}{after}")).json()
            seen += [file["id"] for file in page["data"]]
            assert page["last_id"] == seen[-1]
            if not page["has_more"]:
                break
        assert sorted(seen) == sorted(made)
        other = (await server.http.get("/v1/files?purpose=vision")).json()
        assert other == {
            "object": "list", "data": [], "first_id": None, "last_id": None, "has_more": False
        }  # fmt: skip
        for bad in ("limit=0", "limit=x", "limit=10001", "order=up", "after=file-1", "page=2"):
            assert error_of(await server.http.get(f"/v1/files?{bad}"))["param"] in bad

    run(scenario, with_folder(tmp_path))


@pytest.mark.parametrize("path", ["/v1/files", "/v1/batches"])
def test_a_page_may_be_as_long_as_the_document_says(tmp_path: Path, path: str) -> None:
    async def scenario(server: Server) -> None:
        document = (await server.http.get("/openapi.json")).json()
        parameters = document["paths"][path]["get"]["parameters"]
        most = next(one["schema"]["maximum"] for one in parameters if one["name"] == "limit")
        assert (await server.http.get(f"{path}?limit={most}")).status_code == 200
        error_of(await server.http.get(f"{path}?limit={most + 1}"))

    run(scenario, with_folder(tmp_path))


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("../../etc/passwd", "passwd"),
        ("C:\\\\temp\\\\in.jsonl", "in.jsonl"),
        ("/abs/olute", "olute"),
        ("a\tb\x7fc", "abc"),
        ("", "upload"),
        ("..", ".."),
        ("n" * 300, "n" * 255),
        ("grüße.jsonl", "grüße.jsonl"),
    ],
)
def test_a_file_name_is_a_label_and_no_path(tmp_path: Path, given: str, shown: str) -> None:
    async def scenario(server: Server) -> None:
        form = part("purpose", "batch") + part("file", "x", f'; filename="{given}"')
        response = await post_form(server, f"{form}--{BOUNDARY}--\r\n")
        file = response.json()
        assert file["filename"] == shown
        assert stored(tmp_path) == [file["id"], f"{file['id']}.json"]

    run(scenario, with_folder(tmp_path))


@pytest.mark.parametrize(
    ("form", "param"),
    [
        (part("file", "x"), "purpose"),
        (part("purpose", "batch"), "file"),
        (part("purpose", "vision") + part("file", "x"), "purpose"),
        (part("purpose", "batch") + part("file", "x") + part("file", "y"), "file"),
        (part("purpose", "batch") + part("file", "x") + part("more", "y"), "more"),
        (part("purpose", "b" * 1025) + part("file", "x"), "purpose"),
        (part("purpose", "batch") + part("file", "x") + part("expires_after[seconds]", "9"),
         "expires_after"),
        ("".join(part(f"f{number}", "x") for number in range(9)), None),
        (f"--{BOUNDARY}\r\n\r\nno name\r\n", None),
        (f"--{BOUNDARY}\r\nContent-Disposition: {'x' * 9000}\r\n\r\nx\r\n", None),
        (f"--{BOUNDARY}\r\nbroken header\r\n\r\nx\r\n", None),
    ],
)  # fmt: skip
def test_a_bad_form_is_refused_and_leaves_nothing(
    tmp_path: Path, form: str, param: str | None
) -> None:
    async def scenario(server: Server) -> None:
        response = await post_form(server, f"{form}--{BOUNDARY}--\r\n")
        assert error_of(response)["param"] == param
        assert stored(tmp_path) == []
        assert (await upload(server, b"x")).status_code == 200

    run(scenario, with_folder(tmp_path))


@pytest.mark.parametrize(
    "content_type", ["", "text/plain", "multipart/form-data", f"{FORM}{'b' * 300}"]
)
def test_what_is_no_form_is_refused(tmp_path: Path, content_type: str) -> None:
    async def scenario(server: Server) -> None:
        error_of(await post_form(server, part("file", "x"), content_type))
        assert stored(tmp_path) == []

    run(scenario, with_folder(tmp_path))


def test_a_form_without_its_end_is_refused_wherever_it_is_cut(tmp_path: Path) -> None:
    whole = part("purpose", "batch") + part("file", "x") + f"--{BOUNDARY}--"

    async def scenario(server: Server) -> None:
        for end in range(len(whole) - 1):
            error_of(await post_form(server, whole[:end]))
        assert stored(tmp_path) == []
        assert (await post_form(server, whole + "\r\n")).status_code == 200

    run(scenario, with_folder(tmp_path))


def test_bounds_hold_at_the_limit_and_one_beyond(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        assert (await upload(server, b"x" * 1000)).status_code == 200
        error = error_of(await upload(server, b"x" * 1001), 413)
        assert error["param"] == "file"
        error_of(await upload(server, b"x" * 200_000), 413)
        first = (await upload(server, b"x" * 500)).json()["id"]
        assert error_of(await upload(server, b"x"), 413)["code"] == "storage_full"
        await server.http.delete(f"/v1/files/{first}")
        assert (await upload(server, b"x" * 500)).status_code == 200
        assert len(stored(tmp_path)) == 4

    run(scenario, with_folder(tmp_path, batch_file_bytes=1000, batch_store_bytes=1500))


def test_the_number_of_files_is_bounded(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        for _ in range(2):
            assert (await upload(server, b"x")).status_code == 200
        assert error_of(await upload(server, b"x"), 413)["code"] == "storage_full"

    run(scenario, with_folder(tmp_path, batch_store_files=2))


def test_a_tenant_fills_its_own_share_alone(tmp_path: Path) -> None:
    tenants = tmp_path / "tenants.yaml"
    tenants.write_text(
        "default: {max-stored-bytes: 10}\n"
        "tenants: {big: {keys: [big], max-stored-bytes: 1K}, small: {keys: [small]}}\n"
    )

    async def scenario(server: Server) -> None:
        for key, most in (("small", 10), ("big", 1024)):
            holder = {"Authorization": f"Bearer {key}"}
            error_of(await upload(server, b"x" * (most + 1), **holder), 413)
            assert (await upload(server, b"x" * most, **holder)).status_code == 200

    run(scenario, with_folder(tmp_path / "batches", tenants=str(tenants)))


def test_a_file_ends_at_its_time(tmp_path: Path) -> None:
    expiry = {"expires_after[anchor]": "created_at", "expires_after[seconds]": "3600"}

    async def scenario(server: Server) -> None:
        file = (await upload(server, b"x", **expiry)).json()
        assert file["expires_at"] == file["created_at"] + 3600
        server.clock.ahead_seconds = 3601
        error_of(await server.http.get(f"/v1/files/{file['id']}"), 404)
        assert (await server.http.get("/v1/files")).json()["data"] == []
        await upload(server, b"y")
        assert len(stored(tmp_path)) == 2
        for seconds in ("3599", "2592001", "-1", "x"):
            bad = {**expiry, "expires_after[seconds]": seconds}
            assert error_of(await upload(server, b"x", **bad))["param"] == "expires_after"

    run(scenario, with_folder(tmp_path))


def test_the_input_of_a_batch_is_kept_while_it_runs(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        server.brake.close()
        batch = await create(server, jsonl([line("a")]))
        path = f"/v1/files/{batch['input_file_id']}"
        assert error_of(await server.http.delete(path))["code"] == "file_in_use"
        server.brake.open()
        await until(server, batch["id"])
        assert (await server.http.delete(path)).status_code == 200

    run(scenario, with_folder(tmp_path))


def test_a_folder_serves_one_server_and_is_nobody_elses(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        with pytest.raises(ConfigError, match="in use by another server"):
            BatchService(server.context.options, Tenants())
        assert (tmp_path / "new").stat().st_mode & 0o077 == 0
        assert (tmp_path / "new" / "pepper").stat().st_mode & 0o077 == 0

    run(scenario, with_folder(tmp_path / "new"))
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="--batch-dir"):
        BatchService(ServerConfig(batch_dir=str(tmp_path / "file")), Tenants())
