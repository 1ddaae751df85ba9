"""The routes of files and batches, one row each."""

from __future__ import annotations

from octavo.entrypoints.openai.batches import batch_routes, file_routes
from octavo.entrypoints.openai.batches.objects import (
    Batch,
    CreateBatch,
    FileDeleted,
    FileObject,
    UploadForm,
)
from octavo.entrypoints.openai.bodies.paging import ORDER_QUERY, Page, page_query
from octavo.entrypoints.openai.schema.endpoint import Endpoint

_STORED = (404, 413)
"""Files and batches may be off, unknown, or too many."""

BATCH_ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        method="POST",
        path="/v1/files",
        handler=file_routes.create_file,
        summary="Store a file of requests.",
        form=UploadForm,
        answer=FileObject,
        statuses=_STORED,
    ),
    Endpoint(
        method="GET",
        path="/v1/files",
        handler=file_routes.list_files,
        summary="The stored files.",
        query=(("purpose", str), *page_query(file_routes.MAX_PAGE), *ORDER_QUERY),
        answer=Page[FileObject],
        statuses=_STORED,
    ),
    Endpoint(
        method="GET",
        path="/v1/files/{file_id}",
        handler=file_routes.show_file,
        summary="One of them.",
        answer=FileObject,
        statuses=_STORED,
    ),
    Endpoint(
        method="DELETE",
        path="/v1/files/{file_id}",
        handler=file_routes.delete_file,
        summary="Delete a file.",
        answer=FileDeleted,
        statuses=_STORED,
    ),
    Endpoint(
        method="GET",
        path="/v1/files/{file_id}/content",
        handler=file_routes.read_file,
        summary="What a file holds.",
        text_type="application/octet-stream",
        statuses=_STORED,
    ),
    Endpoint(
        method="POST",
        path="/v1/batches",
        handler=batch_routes.create_batch,
        summary="Answer the requests of a file when there is room.",
        request=CreateBatch,
        answer=Batch,
        statuses=_STORED,
    ),
    Endpoint(
        method="GET",
        path="/v1/batches",
        handler=batch_routes.list_batches,
        summary="The batches.",
        query=page_query(batch_routes.MAX_PAGE),
        answer=Page[Batch],
        statuses=_STORED,
    ),
    Endpoint(
        method="GET",
        path="/v1/batches/{batch_id}",
        handler=batch_routes.show_batch,
        summary="One of them.",
        answer=Batch,
        statuses=_STORED,
    ),
    Endpoint(
        method="POST",
        path="/v1/batches/{batch_id}/cancel",
        handler=batch_routes.cancel_batch,
        summary="End a batch; what is answered stays.",
        answer=Batch,
        statuses=_STORED,
    ),
)
