"""The routes around generation, one row each."""

from __future__ import annotations

from prometheus_client import CONTENT_TYPE_LATEST

from octavo.engine.step_log import StepReport
from octavo.entrypoints.openai.chat.objects import RenderedBody
from octavo.entrypoints.openai.chat.request import ChatRequest
from octavo.entrypoints.openai.chat.routes import render_chat
from octavo.entrypoints.openai.schema.endpoint import Endpoint
from octavo.entrypoints.openai.schema.openapi import show_document
from octavo.entrypoints.openai.utility import routes
from octavo.entrypoints.openai.utility.objects import (
    AbortedBody,
    DetokenizeBody,
    LoadBody,
    ModelCard,
    ModelList,
    ServerInfoBody,
    TokenizeBody,
    TokenizerInfoBody,
    VersionBody,
)
from octavo.entrypoints.openai.utility.request import AbortBody, DetokenizeRequest, TokenizeRequest

UTILITY_ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        method="GET",
        path="/v1/models",
        handler=routes.list_models,
        summary="The names of the served model.",
        answer=ModelList,
    ),
    Endpoint(
        method="GET",
        path="/v1/models/{model:path}",
        handler=routes.show_model,
        summary="One of them.",
        answer=ModelCard,
        statuses=(404,),
    ),
    Endpoint(
        method="POST",
        path="/tokenize",
        handler=routes.tokenize,
        summary="The token ids of a text or a conversation.",
        request=TokenizeRequest,
        answer=TokenizeBody,
        statuses=(429,),
    ),
    *(
        Endpoint(
            method="POST",
            path=path,
            handler=render_chat,
            summary="What the model would read of a chat completion; nothing is generated.",
            request=ChatRequest,
            answer=RenderedBody,
        )
        for path in ("/v1/chat/completions/render", "/apply-template")
    ),
    Endpoint(
        method="POST",
        path="/detokenize",
        handler=routes.detokenize,
        summary="The text of token ids.",
        request=DetokenizeRequest,
        answer=DetokenizeBody,
        statuses=(429,),
    ),
    Endpoint(
        method="GET",
        path="/tokenizer_info",
        handler=routes.tokenizer_info,
        summary="Special tokens, context length and chat template of the model.",
        answer=TokenizerInfoBody,
    ),
    Endpoint(
        method="POST",
        path="/abort_requests",
        handler=routes.abort_requests,
        summary="End requests by id; their clients get what there is.",
        request=AbortBody,
        answer=AbortedBody,
    ),
    Endpoint(
        method="POST",
        path="/reset_prefix_cache",
        handler=routes.reset_prefix_cache,
        summary="Forget all cached prompt beginnings.",
    ),
    Endpoint(
        method="GET",
        path="/version",
        handler=routes.version,
        summary="The version of octavo.",
        answer=VersionBody,
    ),
    Endpoint(
        method="GET",
        path="/load",
        handler=routes.load,
        summary="How many requests are being answered.",
        answer=LoadBody,
    ),
    Endpoint(
        method="GET",
        path="/server_info",
        handler=routes.server_info,
        summary="The options of engine and server, without keys and places.",
        answer=ServerInfoBody,
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
        handler=routes.metrics,
        summary="Metrics for Prometheus.",
        text_type=CONTENT_TYPE_LATEST.partition(";")[0],
    ),
    Endpoint(
        method="GET",
        path="/steps",
        handler=routes.steps,
        summary="The engine's latest steps, and how long they took.",
        answer=StepReport,
    ),
    Endpoint(
        method="GET",
        path="/health",
        handler=routes.health,
        summary="200 while the engine answers and the server takes requests, else 503.",
        is_public=True,
        statuses=(503,),
    ),
    Endpoint(
        method="GET",
        path="/ping",
        handler=routes.health,
        summary="As /health.",
        is_public=True,
        statuses=(503,),
    ),
)
