"""`/v1/files`: upload, list, look at, read and delete what batches need and make."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import FileResponse, Response

from octavo.entrypoints.openai.batches.file_store import FileStore
from octavo.entrypoints.openai.batches.objects import FileDeleted, FileObject, StoredFile
from octavo.entrypoints.openai.batches.service import BatchService
from octavo.entrypoints.openai.batches.upload import Upload, receive_upload
from octavo.entrypoints.openai.bodies.paging import check_query, page_of
from octavo.entrypoints.openai.http.errors import json_response
from octavo.errors import InvalidRequest, NotFound, RequestTooLarge, UnsupportedParameter

PURPOSE = "batch"
MAX_FORM_OVERHEAD_BYTES = 64 * 1024
MIN_EXPIRY_SECONDS, MAX_EXPIRY_SECONDS = 3600, 30 * 86400
EXPIRY_FIELDS = ("expires_after[anchor]", "expires_after[seconds]")
MAX_PAGE = 10_000


def service_of(request: Request) -> BatchService:
    """Raises `NotFound` where there is none."""
    service: BatchService | None = request.app.state.batches
    if service is None:
        raise NotFound(
            "files and batches are off; the server needs --batch-dir", code="batches_are_off"
        )
    return service


async def create_file(request: Request) -> Response:
    store = service_of(request).files
    _check_length(request.headers.get("content-length", ""), store)
    content_type = request.headers.get("content-type", "")
    upload = await receive_upload(content_type, request.stream(), store, request.state.tenant)
    try:
        expires_seconds = _checked(upload)
        stored = await store.publish(
            upload.file,
            filename=upload.filename,
            purpose="batch",
            expires_seconds=expires_seconds,
        )
    except BaseException:
        upload.file.discard()
        raise
    return json_response(_shown(stored))


async def list_files(request: Request) -> Response:
    store = service_of(request).files
    query = request.query_params
    check_query(query, ("purpose", "limit", "after", "order"))
    files = [_shown(file) for file in store.of(request.state.tenant)]
    if purpose := query.get("purpose"):
        files = [file for file in files if file.purpose == purpose]
    return json_response(page_of(files, query, default_limit=MAX_PAGE, max_limit=MAX_PAGE))


async def show_file(request: Request) -> Response:
    return json_response(_shown(_file(request)))


async def read_file(request: Request) -> Response:
    file = _file(request)
    path = service_of(request).files.path(file.id)
    headers = {"X-Content-Type-Options": "nosniff"}
    return FileResponse(path, media_type="application/octet-stream", headers=headers)


async def delete_file(request: Request) -> Response:
    file_id = str(request.path_params["file_id"])
    service_of(request).files.delete(request.state.tenant, file_id)
    return json_response(FileDeleted(id=file_id))


def _file(request: Request) -> StoredFile:
    store = service_of(request).files
    return store.get(request.state.tenant, str(request.path_params["file_id"]))


def _shown(file: StoredFile) -> FileObject:
    return FileObject(
        id=file.id,
        bytes=file.bytes,
        created_at=file.created_at,
        expires_at=file.expires_at,
        filename=file.filename,
        purpose=file.purpose,
    )


def _check_length(declared: str, store: FileStore) -> None:
    """Before anything is read. What is not declared is counted as it comes."""
    most = store.bounds.max_file_bytes
    if declared.isdecimal() and len(declared) < 19:
        num_bytes = int(declared)
        if num_bytes > most + MAX_FORM_OVERHEAD_BYTES:
            raise RequestTooLarge(
                f"the form has {num_bytes} bytes; files of at most {most} are allowed", param="file"
            )


def _checked(upload: Upload) -> int | None:
    """In how many seconds the file expires, if it does. Raises `InvalidRequest`."""
    fields = dict(upload.fields)
    purpose = fields.pop("purpose", None)
    if purpose is None:
        raise InvalidRequest("the form has no purpose", param="purpose")
    if purpose != PURPOSE:
        raise UnsupportedParameter(
            f"purpose is {purpose[:32]!r}; only {PURPOSE!r} is supported",
            param="purpose",
            code="unsupported_parameter",
        )
    anchor, seconds = (fields.pop(name, None) for name in EXPIRY_FIELDS)
    if fields:
        name = next(iter(fields))[:64]
        raise InvalidRequest(f"unknown parameter {name!r}", param=name)
    if anchor is None and seconds is None:
        return None
    if anchor != "created_at" or seconds is None or not seconds.isdecimal():
        raise InvalidRequest(
            "expires_after needs the anchor 'created_at' and seconds", param="expires_after"
        )
    return checked_expiry(int(seconds[:10]), "expires_after")


def checked_expiry(seconds: int, param: str) -> int:
    """Raises `InvalidRequest`."""
    if not MIN_EXPIRY_SECONDS <= seconds <= MAX_EXPIRY_SECONDS:
        raise InvalidRequest(
            f"{param}.seconds is {seconds}; {MIN_EXPIRY_SECONDS} to {MAX_EXPIRY_SECONDS} are "
            "allowed",
            param=param,
        )
    return seconds
