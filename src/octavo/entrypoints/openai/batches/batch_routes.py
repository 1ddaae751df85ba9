"""`/v1/batches`: create, look at, list and cancel. What runs them is `service`."""

from __future__ import annotations

import re
import time

from starlette.requests import Request
from starlette.responses import Response

from octavo.entrypoints.openai.batches.file_routes import checked_expiry, service_of
from octavo.entrypoints.openai.batches.line_call import ENDPOINTS
from octavo.entrypoints.openai.batches.objects import Batch, BatchRecord, CreateBatch
from octavo.entrypoints.openai.bodies.ids import new_id
from octavo.entrypoints.openai.bodies.paging import check_query, page_of
from octavo.entrypoints.openai.http.errors import json_response
from octavo.entrypoints.openai.intake.context import receive_body
from octavo.errors import InvalidRequest

WINDOW = re.compile(r"([1-9]\d{0,2})([mhd])")
WINDOW_SECONDS = {"m": 60, "h": 3600, "d": 86400}
MAX_WINDOW_SECONDS = 30 * 86400
MAX_METADATA_PAIRS = 16
MAX_KEY_CHARS, MAX_VALUE_CHARS = 64, 512
DEFAULT_PAGE, MAX_PAGE = 20, 100


async def create_batch(request: Request) -> Response:
    service = service_of(request)
    incoming, body = await receive_body(request, CreateBatch)
    if body.endpoint not in ENDPOINTS:
        raise InvalidRequest(
            f"endpoint is {body.endpoint[:64]!r}; one of {', '.join(ENDPOINTS)} is allowed",
            param="endpoint",
        )
    check_metadata(body.metadata)
    expiry = body.output_expires_after
    service.files.get(incoming.tenant, body.input_file_id, param="input_file_id")
    created_at = int(time.time())
    batch = Batch(
        id=new_id("batch_"),
        endpoint=body.endpoint,
        model=body.model or incoming.context.model.names[0],
        input_file_id=body.input_file_id,
        completion_window=body.completion_window,
        created_at=created_at,
        expires_at=created_at + _window_seconds(body.completion_window),
        metadata=body.metadata,
    )
    record = BatchRecord(
        tenant=incoming.tenant,
        batch=batch,
        output_id=new_id("file-"),
        error_id=new_id("file-"),
        output_expires_seconds=(
            None if expiry is None else checked_expiry(expiry.seconds, "output_expires_after")
        ),
    )
    await service.add(record)
    return json_response(batch)


async def show_batch(request: Request) -> Response:
    return json_response(_record(request).batch)


async def list_batches(request: Request) -> Response:
    query = request.query_params
    check_query(query, ("limit", "after"))
    batches = [record.batch for record in service_of(request).batches.of(request.state.tenant)]
    return json_response(page_of(batches, query, default_limit=DEFAULT_PAGE, max_limit=MAX_PAGE))


async def cancel_batch(request: Request) -> Response:
    record = _record(request)
    await service_of(request).cancel(record)
    return json_response(record.batch)


def _record(request: Request) -> BatchRecord:
    batches = service_of(request).batches
    return batches.get(request.state.tenant, str(request.path_params["batch_id"]))


def _window_seconds(text: str) -> int:
    match = WINDOW.fullmatch(text)
    seconds = int(match[1]) * WINDOW_SECONDS[match[2]] if match else 0
    if not 0 < seconds <= MAX_WINDOW_SECONDS:
        raise InvalidRequest(
            f"completion_window is {text[:32]!r}; such as '24h', '30m' or '7d', up to '30d', is "
            "allowed",
            param="completion_window",
        )
    return seconds


def check_metadata(metadata: dict[str, str] | None) -> None:
    """Raises `InvalidRequest` beyond OpenAI's bounds."""
    pairs = metadata or {}
    is_small = len(pairs) <= MAX_METADATA_PAIRS and all(
        len(key) <= MAX_KEY_CHARS and len(value) <= MAX_VALUE_CHARS for key, value in pairs.items()
    )
    if not is_small:
        raise InvalidRequest(
            f"metadata has {len(pairs)} pairs; {MAX_METADATA_PAIRS} of at most {MAX_KEY_CHARS} and "
            f"{MAX_VALUE_CHARS} characters are allowed",
            param="metadata",
        )
