"""The routes of the server, one row each. A route that is not here does not exist."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from prometheus_client import CONTENT_TYPE_LATEST

from octavo.engine.step_log import StepReport
from octavo.entrypoints.anthropic.endpoints import MESSAGE_ENDPOINTS
from octavo.entrypoints.openai import responses, utility_routes
from octavo.entrypoints.openai.batches import batch_routes, file_routes
from octavo.entrypoints.openai.batches.objects import (
    Batch,
    CreateBatch,
    FileDeleted,
    FileObject,
    UploadForm,
)
from octavo.entrypoints.openai.batches.paging import Page
from octavo.entrypoints.openai.chat import create_chat_completion
from octavo.entrypoints.openai.chat_request import ChatRequest
from octavo.entrypoints.openai.completion_request import CompletionRequest
from octavo.entrypoints.openai.completions import create_completion
from octavo.entrypoints.openai.endpoint import Endpoint
from octavo.entrypoints.openai.openapi import show_document
from octavo.entrypoints.openai.pooling_endpoints import POOLING_ENDPOINTS
from octavo.entrypoints.openai.responses_api.endpoints import RESPONSE_ENDPOINTS
from octavo.entrypoints.openai.utility_requests import (
    AbortBody,
    DetokenizeRequest,
    TokenizeRequest,
)

_PAGE: tuple[tuple[str, object], ...] = (
    ("limit", Annotated[int, msgspec.Meta(ge=1, le=100)]),
    ("after", str),
)
_STORED = (404, 413)
"""Files and batches may be off, unknown, or too many."""

ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        method="POST",
        path="/v1/chat/completions",
        handler=create_chat_completion,
        summary="Answer a conversation.",
        request=ChatRequest,
        answer=responses.ChatBody,
        event=responses.ChatChunk,
    ),
    Endpoint(
        method="POST",
        path="/v1/completions",
        handler=create_completion,
        summary="Continue a text or token ids.",
        request=CompletionRequest,
        answer=responses.CompletionBody,
        event=responses.CompletionBody,
    ),
    *POOLING_ENDPOINTS,
    *RESPONSE_ENDPOINTS,
    *MESSAGE_ENDPOINTS,
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
        query=(("purpose", str), *_PAGE, ("order", Literal["asc", "desc"])),
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
        query=_PAGE,
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
    Endpoint(
        method="GET",
        path="/v1/models",
        handler=utility_routes.list_models,
        summary="The names of the served model.",
        answer=responses.ModelList,
    ),
    Endpoint(
        method="GET",
        path="/v1/models/{model:path}",
        handler=utility_routes.show_model,
        summary="One of them.",
        answer=responses.ModelCard,
        statuses=(404,),
    ),
    Endpoint(
        method="POST",
        path="/tokenize",
        handler=utility_routes.tokenize,
        summary="The token ids of a text or a conversation.",
        request=TokenizeRequest,
        answer=responses.TokenizeBody,
        statuses=(429,),
    ),
    Endpoint(
        method="POST",
        path="/detokenize",
        handler=utility_routes.detokenize,
        summary="The text of token ids.",
        request=DetokenizeRequest,
        answer=responses.DetokenizeBody,
        statuses=(429,),
    ),
    Endpoint(
        method="POST",
        path="/abort_requests",
        handler=utility_routes.abort_requests,
        summary="End requests by id; their clients get what there is.",
        request=AbortBody,
        answer=responses.AbortedBody,
    ),
    Endpoint(
        method="POST",
        path="/reset_prefix_cache",
        handler=utility_routes.reset_prefix_cache,
        summary="Forget all cached prompt beginnings.",
    ),
    Endpoint(
        method="GET",
        path="/version",
        handler=utility_routes.version,
        summary="The version of octavo.",
        answer=responses.VersionBody,
    ),
    Endpoint(
        method="GET",
        path="/load",
        handler=utility_routes.load,
        summary="How many requests are being answered.",
        answer=responses.LoadBody,
    ),
    Endpoint(
        method="GET",
        path="/server_info",
        handler=utility_routes.server_info,
        summary="The options of engine and server, without keys and places.",
        answer=responses.ServerInfoBody,
    ),
    Endpoint(
        method="GET",
        path="/openapi.json",
        handler=show_document,
        summary="This interface as an OpenAPI document.",
        answer=dict,
    ),
    Endpoint(
        method="GET",
        path="/metrics",
        handler=utility_routes.metrics,
        summary="Metrics for Prometheus.",
        text_type=CONTENT_TYPE_LATEST.partition(";")[0],
    ),
    Endpoint(
        method="GET",
        path="/steps",
        handler=utility_routes.steps,
        summary="The engine's latest steps, and how long they took.",
        answer=StepReport,
    ),
    Endpoint(
        method="GET",
        path="/health",
        handler=utility_routes.health,
        summary="200 while the engine answers and the server takes requests, else 503.",
        is_public=True,
        statuses=(503,),
    ),
    Endpoint(
        method="GET",
        path="/ping",
        handler=utility_routes.health,
        summary="As /health.",
        is_public=True,
        statuses=(503,),
    ),
)
