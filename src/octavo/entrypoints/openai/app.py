"""The HTTP application: routes, their guard, and how errors look. Starts nothing."""

from __future__ import annotations

import logging

from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response

from octavo.config.server import ServerConfig
from octavo.config.tenants import Tenants
from octavo.engine.client import EngineClient
from octavo.engine.input_processor import InputProcessor
from octavo.engine.step_log import StepLog
from octavo.entrypoints.openai.batches.service import BatchService
from octavo.entrypoints.openai.endpoints import ENDPOINTS
from octavo.entrypoints.openai.http.auth import ERROR_SHAPE, KEY_HEADER, Guard, GuardedRoute
from octavo.entrypoints.openai.http.errors import (
    INTERNAL_ERROR,
    ErrorBody,
    ErrorDetail,
    ErrorShape,
    error_response,
    json_response,
    openai_error,
)
from octavo.entrypoints.openai.http.request_id import REQUEST_ID_HEADER, Application
from octavo.entrypoints.openai.intake.admission import TIMEOUT_HEADER, FrontObserver
from octavo.entrypoints.openai.intake.context import ModelInfo, ServerContext
from octavo.entrypoints.openai.intake.open_requests import OpenRequests, PatientShare
from octavo.entrypoints.openai.responses_api.store import ResponseStore
from octavo.entrypoints.openai.schema.endpoint import Endpoint
from octavo.entrypoints.openai.schema.openapi import ApiDocument
from octavo.errors import RequestError
from octavo.metrics.engine_metrics import EngineMetrics
from octavo.scheduler.admission.admission import Admission
from octavo.scheduler.admission.demand import AdmissionBounds
from octavo.scheduler.admission.queue_order import QueueOrder

logger = logging.getLogger(__name__)


def build_app(
    client: EngineClient,
    inputs: InputProcessor,
    model: ModelInfo,
    options: ServerConfig,
    metrics: EngineMetrics,
    tenants: Tenants,
    order: QueueOrder | None = None,
    batches: BatchService | None = None,
) -> Application:
    """The application of one served model. `app.state` holds what its routes use. `order`:
    in which the engine admits those who wait; that of arrival unless given. Without `batches` the
    routes of files and batches say that they are off.

    From now on `metrics` and admission hear of what `client` does.
    """
    app = Application(routes=[_route(endpoint) for endpoint in ENDPOINTS])
    admission = Admission(tenants, _bounds(model, options), order)
    steps = StepLog()
    client.observe(FrontObserver(metrics, admission, steps))
    share = PatientShare.of(model.max_num_seqs, options.batch_num_seqs)
    open_requests = OpenRequests(admission, metrics.refused, share)
    app.state.context = ServerContext(
        client,
        inputs,
        model,
        options,
        metrics,
        tenants,
        open_requests,
        steps,
    )
    app.state.batches = batches
    app.state.responses = ResponseStore(options.response_store_bytes, options.response_store_count)
    app.state.guard = Guard(options, tenants, None if batches is None else batches.pepper)
    app.state.document = ApiDocument(ENDPOINTS)
    app.add_exception_handler(RequestError, _request_error)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(Exception, _unexpected_error)
    if options.allowed_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(options.allowed_origins),
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=[
                *("Authorization", KEY_HEADER, "Content-Type"),
                *(REQUEST_ID_HEADER, TIMEOUT_HEADER, "anthropic-version", "anthropic-beta"),
            ],
            expose_headers=[REQUEST_ID_HEADER],
        )
    return app


def _route(endpoint: Endpoint) -> GuardedRoute:
    return GuardedRoute(
        endpoint.method,
        endpoint.path,
        endpoint.handler,
        endpoint.is_public,
        endpoint.error_shape,
    )


def _bounds(model: ModelInfo, options: ServerConfig) -> AdmissionBounds:
    return AdmissionBounds(
        num_slots=model.max_num_seqs,
        max_sequences=model.max_num_seqs + options.num_queued_limit(model.max_num_seqs),
        max_queued_tokens=options.max_num_queued_tokens,
        max_queue_seconds=options.max_queue_seconds,
    )


async def _request_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestError)
    return error_response(error, _shape(request))


def _shape(request: Request) -> ErrorShape:
    """Of the protocol that the matched route speaks."""
    shape: ErrorShape = getattr(request.state, ERROR_SHAPE, openai_error)
    return shape


async def _http_error(request: Request, error: Exception) -> Response:
    """What the router itself refuses: no such path, or not with this method."""
    assert isinstance(error, HTTPException)
    message = f"{request.method} {request.url.path[:128]}: {error.detail}"
    body = ErrorBody(ErrorDetail(message=message, type="invalid_request_error"))
    return json_response(body, status=error.status_code, headers=dict(error.headers or {}))


async def _unexpected_error(request: Request, error: Exception) -> Response:
    logger.error("%s failed", request.url.path, exc_info=error)
    return json_response(_shape(request)(INTERNAL_ERROR.error, 500), status=500)
