"""The HTTP application: which function answers which route, and how errors look. Starts nothing."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response

from octavo.config.server import ServerConfig
from octavo.config.tenants import Tenants
from octavo.engine.client import EngineClient
from octavo.engine.input_processor import InputProcessor
from octavo.entrypoints.openai import utility_routes
from octavo.entrypoints.openai.admission import FrontObserver
from octavo.entrypoints.openai.auth import Guard, GuardedRoute
from octavo.entrypoints.openai.chat import create_chat_completion
from octavo.entrypoints.openai.completions import create_completion
from octavo.entrypoints.openai.context import ModelInfo, ServerContext
from octavo.entrypoints.openai.embeddings import create_embeddings
from octavo.entrypoints.openai.errors import (
    INTERNAL_ERROR,
    ErrorBody,
    ErrorDetail,
    error_response,
    json_response,
)
from octavo.entrypoints.openai.open_requests import OpenRequests
from octavo.entrypoints.openai.similarity import create_rerank, create_score
from octavo.errors import RequestError
from octavo.metrics.engine_metrics import EngineMetrics
from octavo.scheduler.admission.admission import Admission, AdmissionBounds

logger = logging.getLogger(__name__)

Handler = Callable[[Request], Awaitable[Response]]

ROUTES: tuple[tuple[str, str, Handler], ...] = (
    ("POST", "/v1/chat/completions", create_chat_completion),
    ("POST", "/v1/completions", create_completion),
    ("POST", "/v1/embeddings", create_embeddings),
    ("POST", "/score", create_score),
    ("POST", "/v1/score", create_score),
    ("POST", "/rerank", create_rerank),
    ("POST", "/v1/rerank", create_rerank),
    ("POST", "/v2/rerank", create_rerank),
    ("GET", "/v1/models", utility_routes.list_models),
    ("GET", "/v1/models/{model:path}", utility_routes.show_model),
    ("POST", "/tokenize", utility_routes.tokenize),
    ("POST", "/detokenize", utility_routes.detokenize),
    ("POST", "/abort_requests", utility_routes.abort_requests),
    ("POST", "/reset_prefix_cache", utility_routes.reset_prefix_cache),
    ("GET", "/version", utility_routes.version),
    ("GET", "/metrics", utility_routes.metrics),
)
PUBLIC_ROUTES: tuple[tuple[str, str, Handler], ...] = (
    ("GET", "/health", utility_routes.health),
    ("GET", "/ping", utility_routes.health),
)


def build_app(
    client: EngineClient,
    inputs: InputProcessor,
    model: ModelInfo,
    options: ServerConfig,
    metrics: EngineMetrics,
    tenants: Tenants,
) -> Starlette:
    """The application of one served model. `app.state.context` holds what its routes use.

    From now on `metrics` and admission hear of what `client` does.
    """
    app = Starlette(routes=[*_routes(ROUTES), *_routes(PUBLIC_ROUTES, is_public=True)])
    admission = Admission(tenants, _bounds(model, options))
    client.observe(FrontObserver(metrics, admission))
    open_requests = OpenRequests(admission, metrics.refused)
    app.state.context = ServerContext(
        client, inputs, model, options, metrics, tenants, open_requests
    )
    app.state.guard = Guard(options, tenants)
    app.add_exception_handler(RequestError, _request_error)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(Exception, _unexpected_error)
    if options.allowed_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(options.allowed_origins),
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type"],
        )
    return app


def _routes(
    table: Iterable[tuple[str, str, Handler]], *, is_public: bool = False
) -> list[GuardedRoute]:
    return [GuardedRoute(method, path, handler, is_public) for method, path, handler in table]


def _bounds(model: ModelInfo, options: ServerConfig) -> AdmissionBounds:
    return AdmissionBounds(
        num_slots=model.max_num_seqs,
        max_sequences=model.max_num_seqs + options.num_queued_limit(model.max_num_seqs),
        max_queued_tokens=options.max_num_queued_tokens,
        max_queue_seconds=options.max_queue_seconds,
    )


async def _request_error(request: Request, error: Exception) -> Response:  # noqa: ARG001
    assert isinstance(error, RequestError)
    return error_response(error)


async def _http_error(request: Request, error: Exception) -> Response:
    """What the router itself refuses: no such path, or not with this method."""
    assert isinstance(error, HTTPException)
    message = f"{request.method} {request.url.path[:128]}: {error.detail}"
    body = ErrorBody(ErrorDetail(message=message, type="invalid_request_error"))
    return json_response(body, status=error.status_code, headers=dict(error.headers or {}))


async def _unexpected_error(request: Request, error: Exception) -> Response:
    logger.error("%s failed", request.url.path, exc_info=error)
    return json_response(INTERNAL_ERROR, status=500)
